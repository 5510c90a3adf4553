"""What the gate of a server in a cluster reads from the server's own file, and what it takes out of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster_servers import ranges
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.model.gate import Record
from valkey_operator.sidecar.cluster_gate import FILE, NOBODY, end_imports, own_record, record_of
from valkey_operator.valkey.cluster import parse_nodes

OWN, OTHER = "a" * 40, "b" * 40
AWAY = f"{OTHER} 127.0.0.1:2@3,,tls-port=0,shard-id={OTHER} master - 0 1794780175989 2 connected 0-16383\n"
VARS = "vars currentEpoch 4 lastVoteEpoch 0\n"


def written(folder: Path, flags: str, *slots: str) -> Path:
    own = f"{OWN} 127.0.0.1:1@4,,tls-port=0,shard-id={OWN} {flags} 0 0 4 connected"
    (folder / FILE).write_text(" ".join([own, *slots]) + "\n" + AWAY + VARS)
    return folder


@pytest.mark.parametrize(
    ("flags", "slots", "record"),
    [
        ("myself,master -", (), Record(0, NOBODY)),
        ("myself,master -", ("5-9",), Record(4, "grid-0-0")),
        ("myself,master -", (f"[7-<-{OTHER}]",), Record(4, "grid-0-0")),
        (f"myself,slave {OTHER}", (f"[7-<-{OTHER}]",), Record(0, NOBODY)),
    ],
)
def test_who_owns_slots_or_had_keys_of_them_arriving_must_ask_the_others(
    tmp_path: Path, flags: str, slots: tuple[str, ...], record: Record
) -> None:
    assert own_record(written(tmp_path, flags, *slots), "grid-0-0") == record


def test_a_new_server_endangers_nobody(tmp_path: Path) -> None:
    assert own_record(tmp_path, "grid-0-0") == Record(0, NOBODY)
    end_imports(tmp_path)
    assert not (tmp_path / FILE).exists()


def said(role: contract.Role, slots: bool = False, importing: bool = False) -> contract.Observation:
    own = contract.ClusterNode(id=OWN, role=role, config_epoch=5, slots=ranges((0, 9)) if slots else [])
    coming = [contract.OpenSlots(slots=ranges((7, 7)), other_id=OTHER)] if importing else []
    view = contract.ClusterView(node_id=OWN, nodes=[own], importing=coming)
    return contract.Observation(node="grid-0-1", server=contract.Server(answers=True, cluster=view))


def test_another_one_is_in_office_when_slots_are_its_own_or_come_to_it() -> None:
    assert record_of(said(contract.ROLE_PRIMARY)) == Record()
    assert record_of(said(contract.ROLE_PRIMARY, slots=True)) == Record(5, "grid-0-1")
    assert record_of(said(contract.ROLE_PRIMARY, importing=True)) == Record(5, "grid-0-1")
    assert record_of(said(contract.ROLE_REPLICA, importing=True)) == Record()


def test_only_the_marks_of_slots_that_come_are_taken_out(tmp_path: Path) -> None:
    coming, going = f"[7-<-{OTHER}]", f"[8->-{OTHER}]"
    written(tmp_path, "myself,master -", "1-3", coming, going)
    before = (tmp_path / FILE).read_text()
    end_imports(tmp_path)
    assert (tmp_path / FILE).read_text() == before.replace(f" {coming}", "")
    seen = parse_nodes((tmp_path / FILE).read_text())
    assert ([each.slot for each in seen.migrating], seen.importing) == ([8], [])
