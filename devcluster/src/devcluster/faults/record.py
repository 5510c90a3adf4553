"""What is remembered of a fault while it lasts, so that any later process can undo it."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType


@dataclass(frozen=True)
class Fault:
    """A harm under way. As a context manager it heals itself at the end."""

    id: str
    kind: str
    target: str
    detail: dict[str, str] = field(default_factory=dict)
    on_exit: Callable[[Fault], None] | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        extra = "".join(f" {key}={value}" for key, value in self.detail.items() if not key.startswith("_"))
        return f"{self.id}: {self.kind} {self.target}{extra}"

    def __enter__(self) -> Fault:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.on_exit:
            self.on_exit(self)


class Ledger:
    """The faults under way in one cluster, a file each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, kind: str, target: str, detail: dict[str, str], on_exit: Callable[[Fault], None]) -> Fault:
        """Numbers are never used twice, and a record appears whole or not at all."""
        self._folder.mkdir(exist_ok=True)
        for number in itertools.count(self._last() + 1):
            fault = Fault(f"f{number}", kind, target, detail, on_exit)
            arriving = self._folder / f".{os.getpid()}.new"
            stored = {key: value for key, value in asdict(fault).items() if key != "on_exit"}
            arriving.write_text(json.dumps(stored))
            try:
                os.link(arriving, self._folder / f"{fault.id}.json")
            except FileExistsError:
                continue
            finally:
                arriving.unlink()
            (self._folder / "last").write_text(str(number))
            return fault
        raise AssertionError("numbers do not end")

    def _last(self) -> int:
        try:
            return int((self._folder / "last").read_text())
        except (FileNotFoundError, ValueError):
            return 0

    def all(self) -> list[Fault]:
        found = [Fault(**json.loads(file.read_text())) for file in self._folder.glob("f*.json")]
        return sorted(found, key=lambda fault: int(fault.id[1:]))

    def remove(self, fault: Fault) -> None:
        (self._folder / f"{fault.id}.json").unlink(missing_ok=True)
