"""The API server's audit log: who did what to which resource since a mark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from devcluster.problem import Problem

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True)
class Request:
    """One request as the API server saw it end."""

    user: str
    verb: str
    resource: str
    namespace: str
    name: str
    code: int
    message: str = ""

    @property
    def is_write(self) -> bool:
        return self.verb in WRITES

    @property
    def is_refused(self) -> bool:
        """For want of a right. Other reasons, such as a namespace that ends, have the same code; and a server that has
        just started does not know its own roles yet, and says so."""
        return self.code == 403 and 'User "' in self.message and " not found" not in self.message


class AuditLog:
    """Reads the log from where `mark` was last called."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.mark()

    def mark(self) -> None:
        status = self._file.stat()
        self._place = (status.st_ino, status.st_size)

    def requests(self) -> list[Request]:
        """Everything since the mark, or a Problem: a proof from half a log would be none."""
        inode, offset = self._place
        if self._file.stat().st_ino != inode:
            raise Problem(f"{self._file} was rotated since the mark; mark it anew and look sooner")
        with self._file.open() as content:
            content.seek(max(offset - 1, 0))
            if offset:
                content.readline()  # the end of what was being written at the mark, if not just the line's end
            return list(_parse(content))


def _parse(lines: Iterator[str]) -> Iterator[Request]:
    for line in lines:
        if not line.endswith("\n"):
            return  # still being written
        event = json.loads(line)
        if event["stage"] not in ("ResponseComplete", "ResponseStarted"):
            continue
        target, answer = event.get("objectRef", {}), event.get("responseStatus", {})
        subresource = f"/{target['subresource']}" if "subresource" in target else ""
        yield Request(
            event["user"].get("username", ""),
            event["verb"],
            f"{target.get('resource', '')}{subresource}",
            target.get("namespace", ""),
            target.get("name", ""),
            answer.get("code", 0),
            answer.get("message", ""),
        )
