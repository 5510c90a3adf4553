"""A Valkey: one primary and its replicas. Sees, lets `decide` plan, carries the plan out step by step, reports."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime

from valkey_operator.api.requests import ALLOW_DATA_LOSS
from valkey_operator.api.status import State
from valkey_operator.contract.channel import Unanswered
from valkey_operator.decide.instance import Plan, plan
from valkey_operator.decide.succession import impatience
from valkey_operator.decide.support import Refusal
from valkey_operator.kube import errors
from valkey_operator.kube.controller import label
from valkey_operator.kube.objects import Key, Object
from valkey_operator.model.deployment import Deployment
from valkey_operator.model.instance import Lease, SeenInstance
from valkey_operator.operator.calls import OBSERVE_LIMIT, Caller
from valkey_operator.operator.care import RESYNC, Care
from valkey_operator.operator.instance_report import status
from valkey_operator.operator.instance_seen import Sight, given_up
from valkey_operator.operator.instance_steps import Steps
from valkey_operator.operator.leases import Leases
from valkey_operator.operator.making import noting
from valkey_operator.operator.memory import Memory
from valkey_operator.operator.node_steps import Failed
from valkey_operator.operator.seen import Custom, Pod
from valkey_operator.operator.world import World
from valkey_operator.render import marks, service
from valkey_operator.render.node import valkey_node

SOON = 1.0
log = logging.getLogger(__name__)


class ValkeyController(Care):
    """Keyed by Valkey."""

    def __init__(self, world: World, sidecars: Caller) -> None:
        self._sidecars = sidecars
        self.memory = Memory(self._primary_of)
        self.sight = self._sight = Sight(world, self.memory)
        super().__init__(world, "valkey", "Valkey", world.caches.valkeys, self._sight)
        self.leases = Leases(self._known, self.memory.now, world.leads_for)
        self._steps = Steps(world, sidecars, self._sight, self.leases, self.memory)
        world.observations.on_change(self.memory.hear)
        world.caches.nodes.store.on_change(self._lose)
        world.caches.pods.store.on_change(self._stir)
        self.leases.on_change = self.controller.wake

    def _lose(self, before: Object | None, after: Object | None) -> None:
        """A node that is made anew under an old name has no past."""
        if after is None and before is not None:
            self.memory.forget(before.key)

    def _stir(self, before: Object | None, after: Object | None) -> None:
        """Whatever changes who is led where."""
        states = [isinstance(pod, Pod) and (pod.is_ready, pod.status.pod_ip) for pod in (before, after)]
        pod = after or before
        if states[0] != states[1] and pod is not None:
            for key in label(marks.CLUSTER)(pod):
                self.memory.stir(key)
        if isinstance(after, Pod) and after.has_ended_for_good:
            for key in label(marks.NODE)(after):
                self.memory.end(key, after.metadata.uid)

    async def _look(
        self, item: Custom, deployment: Deployment, denied: list[str], refused: Refusal | None
    ) -> float:
        seen, found = await self._planned(item, deployment)
        said = [*denied, *self._notes(item.key, found.report.state), *_left_behind(item, found)]
        again = found.again
        try:
            for action in found.actions:
                item = await self._steps.carry_out(action, item, deployment, seen)
        except (Failed, *errors.DENIED) as why:
            said, again = [str(why), *said], SOON
            log.warning("%s", why)
        if not seen.record.epoch and item.status.get("primaryEpoch"):
            return 0.0  # the first record is written; the next look makes nodes and has something to tell
        after = status(item, deployment, found, said, datetime.now(UTC))
        pause = await self._tell(item, after, refused, deployment, denied)
        if found.actions:
            again = min(again or SOON, SOON)
        return min(each for each in (again, pause, RESYNC) if each is not None)

    async def _planned(self, item: Custom, deployment: Deployment) -> tuple[SeenInstance, Plan]:
        """Those who must be asked first are asked, all at once."""
        seen = self._see(item, deployment)
        found = plan(seen, datetime.now(UTC))
        if found.ask:
            limits = impatience(seen)
            answers = await asyncio.gather(
                *(self._ask(item.key, name, limits.get(name, OBSERVE_LIMIT)) for name in found.ask)
            )
            answered = dict(zip(found.ask, answers, strict=True))
            seen = self._sight.see(item, deployment, self._lease(item), answered)
            found = plan(seen, datetime.now(UTC))
        return seen, found

    async def _ask(self, deployment: Key, name: str, limit: float) -> bool:
        node = self._world.caches.nodes.store.get(Key(deployment.namespace, name))
        pod = self._sight.pod(node) if node is not None else None
        if node is None or pod is None:
            return False
        try:
            observation = await self._sidecars.observe(node, pod, limit)
        except Unanswered as why:
            log.info("%s does not answer: %s", name, why)
            self.memory.of(node.key).has_not_answered = True
            return False
        self._world.observations.take(node.key, observation)
        return True

    def _see(self, item: Custom, deployment: Deployment) -> SeenInstance:
        return self._sight.see(item, deployment, self._lease(item))

    def _lease(self, item: Custom) -> Lease:
        return self.leases.of(item.key, item.status.get("primary", ""))

    def _known(self, key: Key) -> SeenInstance | None:
        item = self._world.caches.valkeys.store.get(key)
        if item is None:
            return None
        return self._see(item, self._world.deployments.of("Valkey", item))

    def _primary_of(self, node: Key) -> Key | None:
        found = self._world.caches.nodes.store.get(node)
        for key in label(marks.CLUSTER)(found) if found else ():
            item = self._world.caches.valkeys.store.get(key)
            primary = item.status.get("primary") if item else None
            return Key(node.namespace, primary) if primary else None
        return None

    async def _make(self, item: Custom, deployment: Deployment, denied: list[str]) -> None:
        """Addresses, and the specs of nodes with the record they have."""
        writer, caches = self._world.writer, self._world.caches
        primary = item.status.get("primary") or f"{deployment.name}-0"
        is_moved = self._sight.leads_to(deployment) not in ("", primary)
        for wanted in service.services(deployment, primary, self._last_good(item, deployment)):
            if not is_moved or wanted["metadata"]["name"] != deployment.name:  # a step of the plan moves it
                with noting(denied):
                    await writer.apply(caches.services, wanted)
        await self._making.rest(deployment, self._sight.nodes(item.key), denied)
        for node in self._sight.nodes(item.key):
            if not node.metadata.deletion_timestamp:
                with noting(denied):
                    await self._refresh(node, deployment)

    async def _refresh(self, node: Custom, deployment: Deployment) -> None:
        config, name = node.spec.get("valkeyConfig", {}), node.metadata.name
        wanted = valkey_node(
            deployment, name, config.get("replicaOf", name), config.get("epoch", 0),
            self._steps.operator, config.get("members", [name]),
        )  # fmt: skip
        await self._world.writer.apply(self._world.caches.nodes, wanted)


def _left_behind(item: Custom, found: Plan) -> list[str]:
    """Who is well has nothing to give up; what was allowed once must not be allowed for ever."""
    if found.report.state != State.READY or not given_up(item):
        return []
    return [f"the annotation {ALLOW_DATA_LOSS} is not needed any more: take it away"]
