"""The sidecar's process: each part runs by itself, and one that fails is started again.

It never ends because of an error: while it is away, a server that ends is not started again either.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import signal
from collections.abc import Awaitable, Callable

from valkey_operator.contract.identity import NodeIdentity, OperatorIdentity
from valkey_operator.contract.mtls import Credentials, Unusable
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.process import logs
from valkey_operator.settings.sidecar import SidecarSettings
from valkey_operator.sidecar import channel, probes
from valkey_operator.sidecar.handover import Handover
from valkey_operator.sidecar.pod import Pod

AGAIN = 1.0
RELOAD = 2.0
log = logging.getLogger(__name__)


async def run(settings: SidecarSettings) -> None:
    """Until SIGTERM, which comes when the server has ended."""
    pod = Pod(settings, _log_event)
    checks = {"ready": pod.why_not_ready, "live": lambda: None}
    pages = {"metrics": pod.metrics}
    async with probes.opened(checks, settings.probe_port, pages=pages), asyncio.TaskGroup() as group:
        parts = [
            group.create_task(_forever(pod.run), name="door"),
            group.create_task(_forever(Handover(settings.run, pod.stop).run), name="handover"),
            group.create_task(_forever(functools.partial(_serve, settings, pod)), name="channel"),
        ]
        asyncio.get_running_loop().add_signal_handler(
            signal.SIGTERM, lambda: [part.cancel() for part in parts]
        )


async def _serve(settings: SidecarSettings, pod: Pod) -> None:
    """Listen to the operator and the other nodes, as soon as there is a certificate to show."""
    while True:
        try:
            credentials = Credentials.from_folder(settings.identity)
            break
        except Unusable as problem:
            log.debug("no calls are taken yet: %s", problem)
            await asyncio.sleep(RELOAD)
    me = NodeIdentity(
        settings.namespace, settings.kind, settings.deployment, settings.node, settings.trust_domain
    )
    doorman = channel.Doorman(
        me, OperatorIdentity(settings.operator_namespace, settings.trust_domain), pod.counts
    )
    async with channel.opened(pod, doorman, credentials, settings.channel_port):
        log.info("takes calls as %s", me)
        while True:
            await asyncio.sleep(RELOAD)
            if credentials.reload():
                log.info("shows a new certificate")


async def _forever(part: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await part()
        except Exception:
            log.exception("a part of the sidecar failed and is started again in %.0f s", AGAIN)
        await asyncio.sleep(AGAIN)


def _log_event(kind: contract.Event.Kind, message: str) -> None:
    log.debug("%s: %s", contract.Event.Kind.Name(kind), message)


def main() -> None:
    settings = SidecarSettings.from_environment()
    logs.configure("json", settings.log_level)
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(run(settings))


if __name__ == "__main__":
    main()
