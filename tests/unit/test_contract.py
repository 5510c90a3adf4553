"""The contract: unknown things are kept, and a change that an old peer would misunderstand is found."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tools.contract import PROTO, ROOT, breaks, described
from valkey_operator.contract.v1 import sidecar_pb2 as contract

CURRENT = (ROOT / PROTO).read_text()


def changed(pattern: str, replacement: str) -> str:
    text, count = re.subn(pattern, replacement, CURRENT, count=1)
    assert count == 1
    return text


@pytest.mark.parametrize(
    ("pattern", "replacement", "complaint"),
    [
        (r"  string node = 1;\n", "", "Observation.node is gone and its number 1 is not reserved"),
        (r"  string node = 1;", "  string name = 1;", "Observation.node: number 1 means something else"),
        (r"  uint64 keys = 10;", "  string keys = 10;", "Server.keys: number 10 means something else"),
        (
            r"  uint64 keys = 10;",
            "  repeated uint64 keys = 10;",
            "Server.keys: number 10 means something else",
        ),
        (r"  ROLE_REPLICA = 2;\n", "", "Role.ROLE_REPLICA is gone or has another number"),
        (
            r"    KIND_FENCED = 8;",
            "    KIND_FENCED = 9;",
            "Event.Kind.KIND_FENCED is gone or has another number",
        ),
        (r"  rpc Act\(Order\) returns \(Outcome\);\n", "", "call Node.Act is gone"),
        (r"rpc Act\(Order\)", "rpc Act(ObserveRequest)", "call Node.Act takes or gives another message"),
    ],
)
def test_a_change_that_an_old_peer_would_misunderstand_is_found(
    pattern: str, replacement: str, complaint: str
) -> None:
    assert complaint in list(breaks(described(CURRENT), described(changed(pattern, replacement))))


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (r"  bool is_fenced = 12;", "  bool is_fenced = 12;\n  string more = 13;"),
        (r"  uint64 keys = 10;", "  reserved 10;"),
        (r"  ROLE_SENTINEL = 3;", "  ROLE_SENTINEL = 3;\n  ROLE_OTHER = 4;"),
        (r"message Save \{\}", "message Save {\n  bool now = 1;\n}"),
    ],
)
def test_what_only_grows_is_fine(pattern: str, replacement: str) -> None:
    assert list(breaks(described(CURRENT), described(changed(pattern, replacement)))) == []


def test_a_field_that_is_not_known_is_kept() -> None:
    """A newer peer's field 99 goes through an older one unharmed."""
    newer = contract.ObserveRequest(pod_uid="x").SerializeToString() + b"\x9a\x06\x03new"
    older = contract.ObserveRequest.FromString(newer)
    assert older.pod_uid == "x"
    assert older.SerializeToString() == newer


def test_an_order_that_is_not_known_is_seen_as_none() -> None:
    """So a sidecar refuses it by name instead of doing something else."""
    unknown = contract.Order(pod_uid="x").SerializeToString() + b"\xda\x0c\x00"  # order number 203
    assert contract.Order.FromString(unknown).WhichOneof("order") is None


def test_a_process_does_not_load_the_half_of_protobuf_that_does_not_work() -> None:
    program = (
        "import sys; from valkey_operator.contract.v1 import sidecar_pb2 as it; "
        "print(it.Observation.FromString(it.Observation(node='a').SerializeToString()).node, "
        "*(name for name in sys.modules if name.startswith('google.protobuf.text_format')))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["a"]
