"""Carries out the stages of a cluster's plan: those of one stage at once; one that fails ends it there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from valkey_operator.api.events import EventReason
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.decide import cluster_actions as do
from valkey_operator.decide import resharding as move
from valkey_operator.decide.actions import Why
from valkey_operator.decide.shard_failover import SWITCHOVER
from valkey_operator.decide.shard_succession import Election
from valkey_operator.kube.objects import Key
from valkey_operator.model.cluster import as_ranges, as_slots
from valkey_operator.model.deployment import Deployment
from valkey_operator.model.instance import TakenOver
from valkey_operator.model.sharded import SeenSharded
from valkey_operator.model.times import written
from valkey_operator.operator import cluster_view
from valkey_operator.operator.calls import Caller
from valkey_operator.operator.cluster_seen import ClusterSight, place_of
from valkey_operator.operator.instance_seen import switchover_request, taken_over
from valkey_operator.operator.node_steps import NodeSteps
from valkey_operator.operator.seen import VALKEY_CLUSTERS, Custom
from valkey_operator.operator.world import World
from valkey_operator.render.node import valkey_node
from valkey_operator.render.pod import OperatorPlace

HURRY = 15_000
FAILOVER_LIMIT = 8_000
LONGEST = 1024
log = logging.getLogger(__name__)


class ClusterSteps:
    def __init__(self, world: World, sidecars: Caller, sight: ClusterSight) -> None:
        self._world, self._sight = world, sight
        self._nodes = NodeSteps(world, sidecars, sight, VALKEY_CLUSTERS)
        settings = world.settings
        self._operator = OperatorPlace(settings.image, settings.namespace, settings.trust_domain)
        # Of the last failover, until it is told: whose it was, and for how many milliseconds writes were paused.
        self._pauses: dict[Key, tuple[str, int]] = {}

    def pause(self, item: Custom) -> int | None:
        """Of the change that its status tells."""
        to, pause = self._pauses.get(item.key, ("", 0))
        return pause if to == (item.status.get("lastFailover") or {}).get("to") else None

    def forget(self, key: Key) -> None:
        self._pauses.pop(key, None)

    async def carry_out(
        self,
        stages: Sequence[Sequence[do.ClusterAction]],
        item: Custom,
        deployment: Deployment,
        seen: SeenSharded,
    ) -> Custom:
        """The ValkeyCluster as it is afterwards: steps that record something change it."""
        for stage in stages:
            recorded = [each for each in stage if isinstance(each, do.NoteFormed | do.FailOver)]
            for action in recorded:
                item = await self._record(action, item)
            done = await asyncio.gather(
                *(self._do(action, item, deployment, seen) for action in stage), return_exceptions=True
            )
            for tried, outcome in zip(stage, done, strict=True):
                if isinstance(tried, do.FailOver):
                    if not isinstance(outcome, BaseException):
                        item = await self._doubt(tried, item)
                        self._sight.note_primary(item.key, tried.shard, tried.node)
                    item = await self._note_end(tried, item, outcome)
            errors = [each for each in done if isinstance(each, BaseException)]
            if errors:
                raise errors[0]
        return item

    async def _do(
        self, action: do.ClusterAction, item: Custom, deployment: Deployment, seen: SeenSharded
    ) -> None:
        log.info("%s", action)
        match action:
            case do.NoteFormed():
                return
            case do.MakeNode(name):
                await self._world.writer.apply(self._world.caches.nodes, self.rendered(deployment, name))
            case do.RemoveNode(name):
                await self._nodes.remove(item, name)
            case do.RestartPod(name, reason):
                await self._nodes.restart(item, name, reason)
            case do.ReplaceSidecar(name):
                await self._nodes.replace_sidecar(item, name)
            case move.CarryFunctions(name, source):
                dump = contract.Order(dump_functions=contract.DumpFunctions())
                dumped = await self._nodes.order(item, source, dump)
                load = contract.LoadFunctions(functions=dumped.functions)
                await self._nodes.order(item, name, contract.Order(load_functions=load))
            case do.FailOver():
                await self._fail_over(action, item, seen)
            case _:
                name, order = _order(action, seen)
                await self._nodes.order(item, name, order)

    async def _fail_over(self, action: do.FailOver, item: Custom, seen: SeenSharded) -> None:
        name, order = _order(action, seen)
        outcome = await self._nodes.order(item, name, order)
        # For how long the dead were silent before, nobody has measured. A sidecar of an older version does not say it.
        if action.planned and (pause := outcome.write_pause_milliseconds):
            self._pauses[item.key] = (name, pause)

    def rendered(self, deployment: Deployment, name: str) -> dict[str, Any]:
        """Its gate asks the others of its shard: who is wanted, and who is there, be it no longer wanted."""
        shard, _ = place_of(name)
        count = max(deployment.value("replicas", 3), 1)
        there = (each.metadata.name for each in self._sight.nodes(Key(deployment.namespace, deployment.name)))
        members = {f"{deployment.name}-{shard}-{index}" for index in range(count)} | {name}
        members |= {each for each in there if place_of(each)[0] == shard}
        return valkey_node(deployment, name, name, 0, self._operator, sorted(members))

    async def note_election(self, item: Custom, found: Election) -> Custom:
        """Of one that the servers have chosen by themselves nobody saw how far the former one was."""
        self._sight.note_primary(item.key, found.shard, found.to)
        if found.is_recorded:
            return item
        is_planned = found.was_handed_over
        reason, lost = (Why.POD_STOPPING, 0) if is_planned else (Why.ELECTED, None)
        changed = do.FailOver(
            found.to, found.shard, found.former, "", reason, planned=is_planned, lost_seconds=lost
        )
        return await self._record(changed, item)

    async def _record(self, action: do.NoteFormed | do.FailOver, item: Custom) -> Custom:
        if isinstance(action, do.NoteFormed):
            return await self._status(item, formed=True)
        bound = {"isUnknown": True} if action.lost_seconds is None else {"seconds": action.lost_seconds}
        last = {
            "at": written(datetime.now(UTC)), "shard": action.shard, "from": action.former, "to": action.node,
            "planned": action.planned, "reason": action.reason, "lossBound": bound,
        }  # fmt: skip
        note = f"shard {action.shard}: {action.node} takes over from {action.former} ({action.reason})"
        self._world.tell((VALKEY_CLUSTERS, item.metadata), EventReason.PRIMARY_CHANGE, note)
        self._pauses.pop(item.key, None)
        request = switchover_request(item)
        if request is not None and action.reason == SWITCHOVER:
            taken_up = {"id": request.id, "result": "UnderWay"}
            return await self._status(item, lastFailover=last, lastSwitchover=taken_up)
        return await self._status(item, lastFailover=last)

    async def _doubt(self, action: do.FailOver, item: Custom) -> Custom:
        """That a planned change was made in time is no proof that every write is there: the former primary may have
        died meanwhile, and the servers have elected the same one. A sidecar of an older version does not say so."""
        last = item.status.get("lastFailover") or {}
        is_of_it = (last.get("from"), last.get("to")) == (action.former, action.node)
        if not action.planned or not is_of_it or self._has_every_write(action, item):
            return item
        return await self._status(item, lastFailover={**last, "lossBound": {"isUnknown": True}})

    def _has_every_write(self, action: do.FailOver, item: Custom) -> bool:
        """By the word of the new primary, which came with its answer, on this very change."""
        heard = self._world.observations.get(Key(item.metadata.namespace, action.node))
        if heard is None:
            return False
        epoch = cluster_view.view(heard.observation.server.cluster).own.config_epoch
        return taken_over(heard.observation) == TakenOver(action.former, epoch)

    async def _note_end(self, action: do.FailOver, item: Custom, why: BaseException | None) -> Custom:
        """A request is answered once, also when it failed: a person may ask again."""
        request = item.status.get("lastSwitchover") or {}
        if action.reason != SWITCHOVER or request.get("result") != "UnderWay":
            return item
        message = f"{action.node} is primary" if why is None else str(why)[:LONGEST]
        ended = {**request, "result": "Done" if why is None else "Failed", "message": message}
        return await self._status(item, lastSwitchover=ended)

    async def _status(self, item: Custom, **changed: Any) -> Custom:
        after = {**item.status, **changed}
        return await self._world.writer.status(
            self._world.caches.clusters, item, item.status, after, compare=True
        )


def _order(action: do.ClusterAction, seen: SeenSharded) -> tuple[str, contract.Order]:
    """Whom to tell, and what."""
    match action:
        case do.Hurry() | do.EndHurry():
            return action.node, contract.Order(hurry=_timers(action))
        case do.AssignSlots(node, ranges, epoch):
            wish = contract.AssignSlots(slots=_said(as_slots(ranges)), config_epoch=epoch)
            return node, contract.Order(assign_slots=wish)
        case do.Meet(node, others):
            return node, contract.Order(meet=contract.Meet(nodes=_acquaintances(others, seen)))
        case do.Follow(node, _, primary_id):
            return node, contract.Order(replicate=contract.Replicate(primary=primary_id))
        case do.Forget(node, ids, though_they_own_slots, though_they_seem_connected):
            forget = contract.Forget(
                node_ids=ids,
                though_they_own_slots=though_they_own_slots,
                though_they_seem_connected=though_they_seem_connected,
            )
            return node, contract.Order(forget=forget)
        case do.ResetNode(node):
            return node, contract.Order(reset_node=contract.ResetNode())
        case do.OpenGate(node):
            return node, contract.Order(open_gate=contract.OpenGate())
        case do.FailOver(proof=proof) if proof:
            taken = contract.TakeOffice(former_id=action.former_id, proof=proof)
            return action.node, contract.Order(take_office=taken, limit_milliseconds=FAILOVER_LIMIT)
        case do.FailOver():
            office = contract.Promote(
                force=not action.planned, former_id=action.former_id, former=action.former
            )
            return action.node, contract.Order(promote=office, limit_milliseconds=FAILOVER_LIMIT)
        case _:
            return _slot_order(action)


def _timers(action: do.Hurry | do.EndHurry) -> contract.Hurry:
    if isinstance(action, do.EndHurry):
        return contract.Hurry()
    return contract.Hurry(
        milliseconds=HURRY,
        ping_milliseconds=action.ping_milliseconds,
        node_timeout_milliseconds=action.node_timeout_milliseconds or 0,
        keeps_node_timeout=action.node_timeout_milliseconds is None,
    )


def _slot_order(action: do.ClusterAction) -> tuple[str, contract.Order]:
    match action:
        case move.MigrateSlots():
            wish = contract.MigrateSlots(
                slots=_said(action.slots), to_node_id=action.to_id, key_by_key=action.key_by_key
            )
            return action.node, contract.Order(migrate_slots=wish)
        case move.ImportSlots(node, _, source_id, slots):
            wanted = contract.ImportSlots(slots=_said(slots), from_node_id=source_id)
            return node, contract.Order(import_slots=wanted)
        case move.ClaimSlots(node, source, source_id, slots):
            claim = contract.ClaimSlots(slots=_said(slots), from_node_id=source_id, from_node=source)
            return node, contract.Order(claim_slots=claim)
        case move.CancelMigration(node):
            return node, contract.Order(cancel_migration=contract.CancelMigration())
    raise AssertionError(f"{action} is no order")


def _said(slots: Iterable[int]) -> list[contract.SlotRange]:
    return [contract.SlotRange(first=first, last=last) for first, last in as_ranges(slots)]


def _acquaintances(names: Sequence[str], seen: SeenSharded) -> list[contract.Acquaintance]:
    found = (seen.of(name) for name in names)
    return [
        contract.Acquaintance(node=each.name, node_id=each.node.id, address=each.node.address)
        for each in found
        if each is not None
    ]
