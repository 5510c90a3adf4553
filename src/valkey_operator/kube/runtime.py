"""Puts the parts together: caches first and always, work only while this process leads, an orderly end."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from valkey_operator.kube.client import Client
from valkey_operator.kube.controller import Controller
from valkey_operator.kube.informer import Informer
from valkey_operator.kube.lease import Leadership
from valkey_operator.kube.objects import ObjectT
from valkey_operator.kube.resources import EVERYTHING, Resource, Selection

log = logging.getLogger(__name__)


class Runtime:
    """The informers and controllers of one process. Any part that ends with an error ends the process."""

    def __init__(self, client: Client, leadership: Leadership | None = None, grace: float = 10.0) -> None:
        self._client = client
        self._leadership = leadership
        if leadership is not None:
            leadership.on_loss = self._lose
        # Before anything is closed.
        self.on_loss: Callable[[], None] = lambda: None
        self._grace = grace
        self._informers: list[Informer[Any]] = []
        self._controllers: list[Controller] = []
        self._background: list[Callable[[], Coroutine[Any, Any, None]]] = []
        self._stopping = asyncio.Event()
        # By a stop, or because the lead was lost.
        self._over = asyncio.Event()
        self._works = False

    def informer(
        self, resource: Resource, type_: type[ObjectT], namespaces: Sequence[str] = (),
        selection: Selection = EVERYTHING,
    ) -> Informer[ObjectT]:  # fmt: skip
        made = Informer(self._client, resource, type_, namespaces, selection)
        self._informers.append(made)
        return made

    def add(self, controller: Controller) -> Controller:
        self._controllers.append(controller)
        return controller

    def beside(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs always, leading or not: servers, the recorder of events."""
        self._background.append(work)

    def checks(self) -> Mapping[str, Callable[[], str | None]]:
        """For readiness: a cache that cannot see is named."""
        return {f"cache of {informer.resource}": informer.trouble for informer in self._informers}

    def resources(self) -> list[Resource]:
        """What its caches are of."""
        return [informer.resource for informer in self._informers]

    def stop(self) -> None:
        self._stopping.set()
        self._over.set()

    async def run(self) -> bool:
        """Until `stop`, SIGTERM or SIGINT: true. Or until the lead is lost: false, and nothing of it is run again."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        async with asyncio.TaskGroup() as group:
            always = [group.create_task(part()) for part in self._background]
            always += [group.create_task(informer.run()) for informer in self._informers]
            leading = group.create_task(self._lead(), name="lead")
            await self._over.wait()
            if not self._works:
                leading.cancel()
            await asyncio.wait({leading})
            for task in always:
                task.cancel()
        return self._stopping.is_set()

    def _lose(self) -> None:
        if not self._stopping.is_set():
            self.on_loss()

    async def _lead(self) -> None:
        for informer in self._informers:
            await informer.synced()
        log.info("all caches are filled")
        if self._leadership is None:
            await self._work()
        else:
            await self._leadership.run(self._work)
        self._over.set()

    async def _work(self) -> None:
        if self._stopping.is_set():  # controllers that have not begun yet would not hear `stop`
            return
        self._works = True
        try:
            async with asyncio.TaskGroup() as group:
                for controller in self._controllers:
                    group.create_task(controller.run(self._grace), name=controller.name)
                await self._stopping.wait()
                for controller in self._controllers:
                    controller.stop()
        except asyncio.CancelledError:
            if not self._stopping.is_set():
                raise
            log.warning("the lead was lost before all work had ended")
        finally:
            self._works = False
