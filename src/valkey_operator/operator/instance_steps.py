"""Carries out the steps of a plan, one at a time; the first that fails ends it, and the next look goes on there."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from valkey_operator.api.events import EventReason
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.decide import actions as do
from valkey_operator.decide.members import wanted_nodes
from valkey_operator.kube.objects import Key
from valkey_operator.model.deployment import Deployment
from valkey_operator.model.instance import Loss, NodeRecord, SeenInstance
from valkey_operator.model.times import written
from valkey_operator.operator.calls import Caller
from valkey_operator.operator.instance_seen import Sight, switchover_request
from valkey_operator.operator.leases import Leases
from valkey_operator.operator.memory import Memory
from valkey_operator.operator.node_steps import Failed, NodeSteps, NotDone
from valkey_operator.operator.seen import VALKEYS, Custom, Pod
from valkey_operator.operator.world import World
from valkey_operator.render import marks
from valkey_operator.render.node import valkey_node
from valkey_operator.render.pod import OperatorPlace
from valkey_operator.render.service import primary_service

HAND_OVER_LIMIT = 5000
log = logging.getLogger(__name__)


class Steps:
    def __init__(self, world: World, sidecars: Caller, sight: Sight, leases: Leases, memory: Memory) -> None:
        self._world, self._leases, self._memory = world, leases, memory
        self._nodes = NodeSteps(world, sidecars, sight, VALKEYS)
        settings = world.settings
        self.operator = OperatorPlace(settings.image, settings.namespace, settings.trust_domain)
        # How long writes were paused, as the old primary measured it, until the change is noted as done.
        self._pauses: dict[tuple[Key, int], int] = {}

    async def carry_out(
        self, action: do.Action, item: Custom, deployment: Deployment, seen: SeenInstance
    ) -> Custom:
        """The Valkey as it is afterwards: steps that record something change it."""
        log.info("%s", action)
        match action:
            case do.RecordPrimary():
                return await self._record(action, item)
            case do.SetPromotable(names):
                with self._leases.entering(item.key, names):
                    return await self._status(item, promotable=list(names))
            case do.NoteFailover(epoch, pause):
                return await self._note_done(item, epoch, pause)
            case do.MoveService(to):
                await self._world.writer.apply(self._world.caches.services, primary_service(deployment, to))
                self._memory.note_moved(item.key)
            case do.MakeNode(name):
                await self._apply_nodes((name,), deployment, seen)
            case do.UpdateNodes(names):
                await self._apply_nodes(names, deployment, seen)
            case do.RemoveNode(name):
                await self._nodes.remove(item, name)
            case do.RestartPod(name, reason):
                await self._nodes.restart(item, name, reason)
            case do.ReplaceSidecar(name):
                await self._nodes.replace_sidecar(item, name)
            case _:
                await self._order(item, action)
        return item

    async def _record(self, action: do.RecordPrimary, item: Custom) -> Custom:
        now = datetime.now(UTC)
        changed: dict[str, Any] = {
            "primary": action.primary,
            "primaryEpoch": action.epoch,
            "promotable": list(action.promotable),
        }
        if action.former:
            changed["lastFailover"] = {
                "at": written(now), "from": action.former,
                "to": action.primary, "planned": action.planned, "reason": str(action.reason),
                "epoch": action.made_in or action.epoch, "lossBound": _loss(action.loss),
            }  # fmt: skip
            note = f"epoch {action.epoch}: {action.primary} is to be primary ({action.reason})"
            self._world.tell((VALKEYS, item.metadata), EventReason.PRIMARY_CHANGE, note)
        return await self._status(item, **changed, **switchover_after(item, action))

    async def _note_done(self, item: Custom, epoch: int, pause: int) -> Custom:
        last = {**item.status["lastFailover"]}
        if last.get("epoch") != epoch:
            raise Failed(f"the change of epoch {epoch} is not the last one any more")
        last["writePauseMs"] = self._pauses.pop((item.key, epoch), pause)
        changed: dict[str, Any] = {"lastFailover": last}
        asked = item.status.get("lastSwitchover") or {}
        if asked.get("epoch") == epoch and asked.get("result") == "UnderWay":
            words = f"{last['to']} is primary"
            changed["lastSwitchover"] = {**asked, "result": "Done", "message": words}
        return await self._status(item, **changed)

    async def _status(self, item: Custom, **changed: Any) -> Custom:
        after = {**item.status, **changed}
        return await self._world.writer.status(
            self._world.caches.valkeys, item, item.status, after, compare=True
        )

    async def _apply_nodes(self, names: tuple[str, ...], deployment: Deployment, seen: SeenInstance) -> None:
        for wanted in wanted_nodes(seen):
            if wanted.name in names:
                node = self._rendered(deployment, wanted.name, wanted.record)
                await self._world.writer.apply(self._world.caches.nodes, node)

    def _rendered(self, deployment: Deployment, name: str, record: NodeRecord) -> dict[str, Any]:
        return valkey_node(deployment, name, record.primary, record.epoch, self.operator, record.members)

    async def _order(self, item: Custom, action: do.Action) -> None:
        name, order = _order(action)
        try:
            outcome = await self._nodes.order(item, name, order)
        except NotDone:
            if isinstance(action, do.HandOver):
                self._memory.note_failed_handover(item.key, action.epoch)
            raise
        if isinstance(action, do.HandOver):
            self._pauses[item.key, action.epoch] = outcome.write_pause_milliseconds


def switchover_after(item: Custom, action: do.RecordPrimary) -> dict[str, Any]:
    """A request is taken up by this, or failed because something else came of it: it is not tried again by itself."""
    request, last = switchover_request(item), item.status.get("lastSwitchover") or {}
    if request is not None and action.reason == do.Why.SWITCHOVER:
        return {"lastSwitchover": {"id": request.id, "result": "UnderWay", "epoch": action.epoch}}
    if last.get("result") != "UnderWay":
        return {}
    message = f"{action.primary} is to be primary ({action.reason}): {action.reason.sentence}"
    return {"lastSwitchover": {**last, "result": "Failed", "message": message}}


ROLES = {contract.ROLE_PRIMARY: marks.PRIMARY, contract.ROLE_REPLICA: marks.REPLICA}


async def label_roles(world: World, nodes: Iterable[tuple[Custom, Pod | None]]) -> None:
    """For people, the read Service and metrics."""
    for node, pod in nodes:
        heard = world.observations.get(node.key)
        if pod is None or heard is None or heard.observation.pod_uid != pod.metadata.uid:
            continue
        labels = marks.role_change(pod.metadata.labels, ROLES.get(heard.observation.server.role, ""))
        if labels:
            body = {"metadata": {"uid": pod.metadata.uid, "labels": labels}}
            await world.writer.patch(world.caches.pods, pod, body, form="merge")


def _order(action: do.Action) -> tuple[str, contract.Order]:
    """Whom to tell, and what."""
    match action:
        case do.NotePrimary(node, primary, epoch):
            return node, contract.Order(epoch=epoch, note_primary=contract.NotePrimary(primary=primary))
        case do.HandOver(source, to, epoch):
            wish = contract.HandOver(to=to)
            return source, contract.Order(epoch=epoch, limit_milliseconds=HAND_OVER_LIMIT, hand_over=wish)
        case do.Promote(node, epoch):
            return node, contract.Order(epoch=epoch, promote=contract.Promote())
        case do.Follow(node, primary, epoch):
            return node, contract.Order(epoch=epoch, replicate=contract.Replicate(primary=primary))
        case do.OpenGate(node, epoch):
            return node, contract.Order(epoch=epoch, open_gate=contract.OpenGate())
    raise AssertionError(f"{action} is no order")


def _loss(loss: Loss) -> dict[str, Any]:
    known = {"bytes": loss.bytes, "seconds": loss.seconds}
    shown: dict[str, Any] = {name: value for name, value in known.items() if value is not None}
    return {**shown, "isUnknown": True} if loss.is_unknown else shown
