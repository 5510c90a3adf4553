"""What all deployments are given, whatever their topology: each look is seen, planned, carried out and reported."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from valkey_operator.api.layers import pinned
from valkey_operator.api.status import State
from valkey_operator.decide.conditions import conditions
from valkey_operator.decide.standing import NodeWord, is_good, standing
from valkey_operator.decide.support import Refusal
from valkey_operator.kube.controller import Again, Controller, itself, label
from valkey_operator.kube.informer import Informer
from valkey_operator.kube.objects import Key, Object
from valkey_operator.model.deployment import Deployment
from valkey_operator.operator import lag
from valkey_operator.operator.accepted import REFUSED_AGAIN, Accepted
from valkey_operator.operator.calm import Calm
from valkey_operator.operator.instance_report import refused_status
from valkey_operator.operator.instance_steps import label_roles
from valkey_operator.operator.making import Making, noting
from valkey_operator.operator.seen import Custom, Pod
from valkey_operator.operator.world import World
from valkey_operator.render import marks, service

RESYNC = 600.0
# Of a status: what nobody does who does not look after it.
UNDER_WAY = ("operation", "next")
LAGGING, PINNED = "lagging", "pinned"


class Sight(Protocol):
    def nodes(self, key: Key) -> list[Custom]: ...

    def pod(self, node: Custom) -> Pod | None: ...


class Care(ABC):
    """Of the deployments of one kind, which `items` are."""

    def __init__(self, world: World, name: str, kind: str, items: Informer[Custom], sight: Sight) -> None:
        self._world, self._kind, self._items, self._all = world, kind, items, sight
        self._making, self._calm, self._accepted = Making(world), Calm(), Accepted(world.caches)
        self.controller = Controller(name, self.reconcile, settle=world.writer.settle)
        caches = world.caches
        self.controller.watches(items, itself)
        self.controller.watches(caches.defaults, self._concerned)
        self.controller.watches(caches.nodes, label(marks.CLUSTER))
        self.controller.watches(caches.pods, label(marks.CLUSTER))
        for made in (caches.services, caches.secrets, caches.budgets):
            self.controller.watches(made, label(marks.CLUSTER))

    def wake(self, node: Key) -> None:
        """A sidecar has said something new."""
        found = self._world.caches.nodes.store.get(node)
        for key in label(marks.CLUSTER)(found) if found else ():
            self.controller.wake(key)

    async def reconcile(self, key: Key) -> Again:
        item = self._items.store.get(key)
        if item is None or item.metadata.deletion_timestamp:
            self._forget(key)
            return None
        deployment, refused = self._accepted.judged(self._world.deployments.of(self._kind, item))
        if deployment is None:
            known = {name: value for name, value in item.status.items() if name not in UNDER_WAY}
            await self._tell(item, known, refused, None)
            return REFUSED_AGAIN
        if refused is None and PINNED not in item.status:
            # Before anything is made of it: defaults may change in the next moment.
            item = await self._write(item, {**item.status, PINNED: pinned(deployment.values)})
        denied: list[str] = []
        if refused is None and not deployment.value("paused"):
            with noting(denied):
                await self._making.users(deployment)
            # Servers need longest. When their nodes are made, which wakes this key, the rest is made while they start.
            if self._all.nodes(key) or deployment.value("replicas", 1) == 0:
                await self._make(item, deployment, denied)
        again = await self._look(item, deployment, denied, refused)
        return min(again, REFUSED_AGAIN if refused is not None or denied else RESYNC)

    @abstractmethod
    async def _make(self, item: Custom, deployment: Deployment, denied: list[str]) -> None:
        """What does not depend on a plan, and no pod needs to start. What the API server denies is told, and keeps
        nobody from being healed."""

    @abstractmethod
    async def _look(
        self, item: Custom, deployment: Deployment, denied: list[str], refused: Refusal | None
    ) -> float:
        """See, plan, act and tell, also what is `refused` of what is wished now; the seconds to the next look."""

    def _forget(self, key: Key) -> None:
        self._calm.forget(key)
        self._accepted.forget(key)

    async def _tell(
        self, item: Custom, after: dict[str, Any], refused: Refusal | None, deployment: Deployment | None,
        denied: Sequence[str] = (),
    ) -> float | None:  # fmt: skip
        """Write the status and the roles; the seconds to wait where the status changes too often. Without `deployment`
        nobody looks after it."""
        nodes = self._all.nodes(item.key)
        if deployment is not None:
            generation = item.metadata.generation
            holds = standing(deployment, generation, item.status, map(_word, nodes), denied)
            said = conditions(item.status, holds, generation, datetime.now(UTC))
            after = {**after, "conditions": [*after["conditions"], *said]}
        lagging = self._lagging(nodes)
        after = {name: value for name, value in after.items() if name != LAGGING}
        after |= {LAGGING: lagging} if lagging else {}
        after |= {PINNED: item.status[PINNED]} if PINNED in item.status else {}
        if refused is not None:
            after = refused_status(item, after, refused, datetime.now(UTC))
        pause = self._calm.pause(item.key, item.status, after)
        if not pause:
            await self._write(item, after)
        await label_roles(self._world, [(node, self._all.pod(node)) for node in nodes])
        return pause or None

    def _last_good(self, item: Custom, deployment: Deployment) -> str:
        """The spec that a roll may go back to: this one if all run with it and are well, else the noted one."""
        if is_good(item.metadata.generation, item.status, map(_word, self._all.nodes(item.key))):
            return service.as_written(item.spec)
        there = self._world.caches.services.store.get(
            Key(item.metadata.namespace, service.headless_name(deployment))
        )
        if there is None or not any(owner.uid == deployment.uid for owner in there.metadata.owner_references):
            return ""
        return there.metadata.annotations.get(marks.LAST_GOOD, "")

    async def _write(self, item: Custom, after: dict[str, Any]) -> Custom:
        """Onto the very version that was seen: the record in it must not be undone by an older look."""
        return await self._world.writer.status(self._items, item, item.status, after, compare=True)

    def _lagging(self, nodes: list[Custom]) -> list[dict[str, Any]]:
        """What primaries said last of their replicas."""
        found: dict[str, int] = {}
        for node in nodes:
            heard = self._world.observations.get(node.key)
            found |= lag.behind(heard.observation) if heard is not None else {}
        return [{"name": name, "bytes": count} for name, count in sorted(found.items())]

    def _notes(self, key: Key, state: State) -> list[str]:
        """What nodes have to say: those that serve beside that, the others why they do not, if nobody waits for it."""
        said: dict[str, list[str]] = {}
        for node in self._all.nodes(key):
            first, _, more = node.status.get("message", "").partition("; ")
            is_wanted = state == State.DEGRADED and not node.status.get("ready")
            told = "; ".join(filter(None, (first if is_wanted else "", more)))
            said.setdefault(told, []).append(node.metadata.name)
        return [f"{', '.join(names)}: {told}" for told, names in said.items() if told]

    def _concerned(self, item: Object) -> list[Key]:
        return self._world.deployments.concerned(self._kind, item.metadata.namespace)


def _word(node: Custom) -> NodeWord:
    return NodeWord(node.metadata.name, node.metadata.generation, node.status)
