"""Whether nothing can run any more on a machine. That it is not seen is no proof: who looks may be behind."""

from __future__ import annotations

from collections.abc import Callable

from valkey_operator.kube.informer import Informer
from valkey_operator.kube.objects import Key, Object
from valkey_operator.operator.seen import Machine

# Kubelets tell of their machine every five minutes: a cache without trouble in which one is missing for so long has not
# only missed it.
SURELY = 600.0


class Machines:
    """As Kubernetes knows them."""

    def __init__(self, cache: Informer[Machine], now: Callable[[], float]) -> None:
        self._cache, self._now = cache, now
        # By name: those that were seen to go; and since when others are looked for in vain.
        self._deleted: set[str] = set()
        self._missing: dict[str, float] = {}
        cache.store.on_change(self._note)

    def why_gone(self, name: str) -> str:
        """How it is known that nothing runs there; empty when it is not."""
        if not name:
            return ""
        if self._cache.trouble() is not None:
            self._missing.clear()  # nobody has looked meanwhile
            return ""
        found = self._cache.store.get(Key("", name))
        if found is not None:
            return f"its machine {name} is out of service" if found.is_out_of_service else ""
        missing_for = self._now() - self._missing.setdefault(name, self._now())
        is_gone = name in self._deleted or missing_for >= SURELY
        return f"its machine {name} was deleted" if is_gone else ""

    def _note(self, before: Object | None, after: Object | None) -> None:
        if after is not None:
            self._deleted.discard(after.metadata.name)
            self._missing.pop(after.metadata.name, None)
        elif before is not None:
            self._deleted.add(before.metadata.name)
