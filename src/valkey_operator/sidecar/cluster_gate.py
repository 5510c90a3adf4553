"""The record of a server in a cluster: its own note of who owns which slots, against what the others of its shard say.

No operator's word is needed: the highest config epoch among owners of a shard's slots is the newest record.
"""

from __future__ import annotations

from pathlib import Path

from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.model.gate import Record
from valkey_operator.valkey.cluster import parse_nodes

# Where the server keeps what it knows of its cluster, in its data folder.
FILE = "nodes.conf"
# In place of a primary: this one owns nothing, so nobody can lose anything by its start.
NOBODY = "nobody"


def own_record(data: Path, node: str) -> Record:
    """As the last run has left it. An owner of slots is its own primary, and so is who had keys of them arriving.

    Whoever has neither endangers nobody.
    """
    try:
        seen = parse_nodes((data / FILE).read_text())
    except FileNotFoundError:
        return Record(0, NOBODY)
    own = next((each for each in seen.members if each.id == seen.own_id), None)
    if own is None or not own.is_primary or not (own.ranges or seen.importing):
        return Record(0, NOBODY)
    return Record(own.config_epoch, node)


def record_of(seen: contract.Observation) -> Record:
    """What another node of the shard says: that it owns slots, or imports some, and since when; or nothing."""
    view = seen.server.cluster
    own = next((each for each in view.nodes if each.id == view.node_id), None)
    if own is None or own.role != contract.ROLE_PRIMARY or not (own.slots or view.importing):
        return Record()
    return Record(own.config_epoch, seen.node)


def end_imports(data: Path) -> None:
    """Of a server that was replaced while slots came to it key by key: they come to another one now.

    It would still hold the marks of them, and take them as soon as it hears that their source has let go: from the one
    who has their keys. Only these marks go: those of slots that leave tell clients where a key is.
    """
    file = data / FILE
    text = file.read_text() if file.exists() else ""
    if "-<-" in text:
        after = "\n".join(" ".join(_without_imports(line)) for line in text.splitlines())
        arriving = file.with_name(f"{FILE}.new")
        arriving.write_text(f"{after}\n")
        arriving.replace(file)


def _without_imports(line: str) -> list[str]:
    return [word for word in line.split(" ") if not (word.startswith("[") and "-<-" in word)]
