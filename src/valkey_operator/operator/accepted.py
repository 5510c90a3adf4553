"""The wishes that were last found good: one that is refused changes nothing, and nobody is left alone because of it."""

from __future__ import annotations

from dataclasses import replace

from valkey_operator.api.validation import as_let_through
from valkey_operator.decide.support import Refusal, refusal
from valkey_operator.kube.objects import Key
from valkey_operator.model.deployment import Deployment
from valkey_operator.operator import names
from valkey_operator.operator.world import Caches
from valkey_operator.render import marks, service

# Nobody tells when a reason against it has gone: a name, a quota.
REFUSED_AGAIN = 30.0


class Accepted:
    """Of the deployments of one kind. An operator that has just started reads them where they are written down."""

    def __init__(self, caches: Caches) -> None:
        self._caches = caches
        self._last: dict[Key, Deployment] = {}

    def judged(self, wished: Deployment) -> tuple[Deployment | None, Refusal | None]:
        """By which values it is looked after, if by any; and why not by these."""
        key = Key(wished.namespace, wished.name)
        refused = refusal(wished) or names.conflict(self._caches, wished)
        if refused is None:
            self._last[key] = wished
            return wished, None
        last = self._last.get(key) or self._written(wished)
        is_looked_after = last is not None and last.uid == wished.uid and not wished.value("paused")
        return last if is_looked_after else None, refused

    def _written(self, wished: Deployment) -> Deployment | None:
        """Unless this version of the operator would not accept it any more."""
        there = self._caches.services.store.get(Key(wished.namespace, service.headless_name(wished)))
        if there is None or not any(owner.uid == wished.uid for owner in there.metadata.owner_references):
            return None
        values = marks.accepted(there.metadata.annotations)
        if values is None:
            return None
        # What is required since then, or was let through before, is no reason to leave alone what serves so.
        found = replace(wished, values=as_let_through(values), required={})
        return found if refusal(found, runs_already=True) is None else None

    def forget(self, key: Key) -> None:
        self._last.pop(key, None)
