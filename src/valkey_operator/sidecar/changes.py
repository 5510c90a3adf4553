"""Which of the server's answers are worth an event, once for each change: another role, a volume that is full,
serving or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.sidecar import observer
from valkey_operator.sidecar.disk import Space

# Of the volume's size, free.
ALMOST_FULL = 0.02


class Changes:
    """Compares each look at the server with the one before."""

    def __init__(self, tell: Callable[[contract.Event.Kind, str], None]) -> None:
        self._tell = tell
        self._role = ""
        self.is_full = False
        self._is_ready = False
        self._answers = False

    def see_readiness(self, why_not: str, *, answers: bool = False) -> None:
        """Also when a server that is not ready begins to answer: only now somebody can make a cluster of it."""
        if self._is_ready == bool(why_not) or (answers and not self._answers):
            self._tell(contract.Event.KIND_READINESS_CHANGED, why_not)
        self._is_ready, self._answers = not why_not, answers

    def see(self, info: Mapping[str, str] | None, space: Space) -> None:
        """A server that does not answer has not changed."""
        if info is None:
            return
        role = info.get("role", "")
        if self._role and role and role != self._role:
            self._tell(contract.Event.KIND_ROLE_CHANGED, f"from {self._role} to {role}")
        self._role = role or self._role
        why = why_full(info, space)
        if why and not self.is_full:
            self._tell(contract.Event.KIND_DISK_FULL, why)
        self.is_full = bool(why)


def why_full(info: Mapping[str, str], space: Space) -> str:
    """A sentence, or nothing. A server does not say why it could not write: it counts where its data may not fit."""
    if not space.size:
        return ""
    if is_almost_full(space):
        return f"{space.free} of {space.size} bytes are free"
    if space.free >= int(info.get("used_memory", 0)):
        return ""
    said = observer.persistence(info)
    if said.last_save_failed or said.last_write_failed:
        return f"the server could not write its data, and {space.free} of {space.size} bytes are free"
    return ""


def is_almost_full(space: Space) -> bool:
    return space.free < space.size * ALMOST_FULL
