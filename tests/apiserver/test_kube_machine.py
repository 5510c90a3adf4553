"""Store and queue against a model, on a real API server, under random changes and random faults.

Whatever happened: the store ends equal to the model, and every key was reconciled after its last change.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from devcluster.cluster import EmbeddedCluster
from tests.caches import eventually
from tests.interloper import Interloper
from valkey_operator.kube import access
from valkey_operator.kube.client import Client
from valkey_operator.kube.controller import Again, Controller
from valkey_operator.kube.informer import Informer
from valkey_operator.kube.objects import Key, Object
from valkey_operator.kube.resources import CONFIG_MAPS

NAMES = st.sampled_from([f"c{n}" for n in range(6)])


class Settings(Object, frozen=True, gc=False):
    data: dict[str, str] = msgspec.field(default_factory=dict)


class CacheMachine(RuleBasedStateMachine):
    """The model is a dictionary of what each ConfigMap holds."""

    cluster: ClassVar[EmbeddedCluster]

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.namespace = f"test-{uuid.uuid4().hex[:8]}"
        self.cluster.kubectl("create", "namespace", self.namespace)
        self.model: dict[str, str] = {}
        self.reconciled: dict[str, str | None] = {}
        self.compacted = False
        self.run(self._begin())

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        self.runner.run(work)

    async def _begin(self) -> None:
        self.direct = await Client(access.from_kubeconfig(str(self.cluster.kubeconfig))).__aenter__()
        self.between = await Interloper(self.cluster.kubeconfig).__aenter__()
        self.through = await Client(self.between.access).__aenter__()
        self.cache = Informer(self.through, CONFIG_MAPS, Settings, [self.namespace], idle=5)
        self.controller = Controller("machine", self._reconcile, workers=2)
        self.controller.watches(self.cache)
        self.tasks = [asyncio.create_task(self.cache.run()), asyncio.create_task(self.controller.run())]
        await self.cache.synced()

    async def _reconcile(self, key: Key) -> Again:
        found = self.cache.store.get(key)
        await asyncio.sleep(0)  # others change the world meanwhile
        self.reconciled[key.name] = None if found is None else found.data["v"]
        return None

    @rule(name=NAMES, value=st.text("abc", min_size=1, max_size=3))
    def write(self, name: str, value: str) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": value}}
        key = Key(self.namespace, name)
        self.run(self._done(self.direct.apply(CONFIG_MAPS, key, body, Object, manager="m", force=True)))
        self.model[name] = value

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.model)))
        self.run(self._done(self.direct.delete(CONFIG_MAPS, Key(self.namespace, name))))
        del self.model[name]

    @rule(refuse=st.booleans())
    def disconnect(self, refuse: bool) -> None:
        async def cut() -> None:
            self.between.disconnect(refuse=refuse)

        self.run(cut())

    @rule()
    def expire(self) -> None:
        """The next watch is refused with 410, as after a compaction."""

        async def refuse() -> None:
            body = msgspec.json.encode({"kind": "Status", "code": 410, "reason": "Expired"})
            self.between.answer(410, body=body)
            self.between.disconnect()

        self.run(refuse())

    @precondition(lambda self: not self.compacted)
    @rule()
    def compact(self) -> None:
        """A real one: etcd forgets its history, the server its cache. Once per run, as it takes seconds."""
        self.compacted = True
        self.between.disconnect(refuse=True)
        self.cluster.faults.compact()
        self.cluster.faults.restart("api")
        self.run(asyncio.sleep(0.1))  # the test's own client sees that its old connections are closed

    @rule()
    def heal(self) -> None:
        async def mend() -> None:
            self.between.heal()

        self.run(mend())

    @rule(seconds=st.sampled_from([0.0, 0.01, 0.2]))
    def time_passes(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))

    def teardown(self) -> None:
        try:
            self.run(self._judge())
        finally:
            self.run(self._end())
            self.runner.close()
            self.cluster.kubectl("delete", "namespace", self.namespace, "--wait=false")

    async def _judge(self) -> None:
        self.between.heal()
        await eventually(lambda: self._held() == self.model)
        await eventually(lambda: self._stale() == {})

    def _held(self) -> dict[str, str]:
        own = (item for item in self.cache.store if "v" in item.data)
        return {item.key.name: item.data["v"] for item in own}

    def _stale(self) -> dict[str, str | None]:
        """Keys whose last reconcile did not see their last state. (One that came and went unseen needs none.)"""
        last = {name: value for name, value in self.reconciled.items() if name.startswith("c")}
        return {
            name: last.get(name)
            for name in {*self.model, *last}
            if last.get(name) != self.model.get(name)
        }  # fmt: skip

    async def _done(self, request: Coroutine[Any, Any, object]) -> None:
        """The model moves with the server: a write that got no answer is a broken test, not a fault."""
        await request

    async def _end(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.through.__aexit__()
        await self.between.__aexit__(None, None, None)
        await self.direct.__aexit__()


@pytest.mark.usefixtures("faults")
def test_store_and_queue_end_as_the_model_says(embedded_cluster: EmbeddedCluster) -> None:
    CacheMachine.cluster = embedded_cluster
    run_state_machine_as_test(
        CacheMachine,
        settings=settings(
            max_examples=6,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[
                Phase.explicit,
                Phase.generate,
            ],  # each example takes seconds: report it, do not shrink it
            print_blob=True,
        ),
    )
