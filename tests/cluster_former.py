"""Observe, decide, carry out, again and again, on real servers: what the operator does to a cluster."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.cluster_servers import Member, ranges
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.decide import formation
from valkey_operator.decide.cluster_actions import (
    AssignSlots,
    ClusterAction,
    ClusterStep,
    EndHurry,
    Follow,
    Forget,
    Hurry,
    Meet,
    NoteFormed,
    ResetNode,
)
from valkey_operator.model.cluster import ClusterNode, SeenCluster
from valkey_operator.operator import cluster_view

PAUSE = 0.02


@dataclass
class Former:
    """Remembers no more than the operator's status does: ids, and whether the cluster was formed."""

    everyone: dict[str, Member]
    is_formed: bool = False
    may_be_lost: frozenset[int] = frozenset()
    ids: dict[str, str] = field(default_factory=dict)
    said: dict[str, contract.Server] = field(default_factory=dict)
    done: int = 0
    refused: list[str] = field(default_factory=list)

    async def look(self) -> SeenCluster:
        nodes = await asyncio.gather(*map(self._node, self.everyone.values()))
        self.ids |= {node.name: node.id for node in nodes if node.id}
        return SeenCluster(tuple(nodes), self.is_formed)

    async def _node(self, member: Member) -> ClusterNode:
        """Named `shard-index`."""
        shard, index = map(int, member.node.split("-"))
        said = (await member.observe_now()).server
        self.said[member.node] = said
        return cluster_view.node(member.node, shard, index, said, self.ids.get(member.node, ""))

    async def carry_out(self, step: ClusterStep, most: int | None = None) -> None:
        """Stage by stage; cut after so many actions."""
        left = len(step.actions) if most is None else most
        for stage in step.stages:
            await asyncio.gather(*map(self._act, stage[:left]))
            left -= len(stage[:left])

    async def _act(self, action: ClusterAction) -> None:
        self.done += 1
        order: dict[str, Any]
        match action:
            case NoteFormed():
                self.is_formed = True
                return
            case Hurry(name, ping, timeout):
                order = {"hurry": contract.Hurry(
                    milliseconds=10000, ping_milliseconds=ping, node_timeout_milliseconds=timeout or 0,
                    keeps_node_timeout=timeout is None,
                )}  # fmt: skip
            case EndHurry(name):
                order = {"hurry": contract.Hurry()}
            case AssignSlots(name, slots, epoch):
                order = {"assign_slots": contract.AssignSlots(slots=ranges(*slots), config_epoch=epoch)}
            case Meet(name, others):
                nodes = [await self.everyone[other].acquaintance() for other in others]
                order = {"meet": contract.Meet(nodes=nodes)}
            case Follow(name, _, primary_id):
                order = {"replicate": contract.Replicate(primary=primary_id)}
            case ResetNode(name):
                order = {"reset_node": contract.ResetNode()}
            case Forget(name, ids, though):
                order = {"forget": contract.Forget(node_ids=ids, though_they_own_slots=though)}
        outcome = await self.everyone[name].order(limit=5.0, **order)
        if outcome.result != contract.RESULT_DONE:
            self.refused.append(f"{name}: {outcome.message}")

    async def settle(
        self, patience: float = 20.0, until: Callable[[ClusterStep], bool] | None = None
    ) -> ClusterStep:
        """Until there is nothing to do and nothing to wait for."""
        ends = time.monotonic() + patience
        while True:
            step = formation.plan(await self.look(), self.may_be_lost)
            if until(step) if until is not None else step.is_settled:
                return step
            waits = [each.sentence for each in step.waits]
            assert time.monotonic() < ends, (waits, step.refusals, step.actions, self.refused)
            await self.carry_out(step)
            await asyncio.sleep(PAUSE)


def names(shards: int, replicas: int) -> Iterable[str]:
    """`replicas` counts the primary."""
    return [f"{shard}-{index}" for shard in range(shards) for index in range(replicas)]
