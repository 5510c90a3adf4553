"""The sidecar's process: each part runs by itself, and one that fails is started again.

It never ends because of an error: while it is away, a server that ends is not started again either.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import signal
import socket
from collections.abc import Awaitable, Callable

from valkey_operator.contract import mtls
from valkey_operator.contract.heartbeat import Address
from valkey_operator.contract.identity import NodeIdentity, OperatorIdentity
from valkey_operator.process import heap, logs
from valkey_operator.settings.sidecar import SidecarSettings
from valkey_operator.sidecar import channel, probes
from valkey_operator.sidecar.certificates import Certificates
from valkey_operator.sidecar.handover import Handover
from valkey_operator.sidecar.heartbeat import Sender
from valkey_operator.sidecar.lease import Keeper
from valkey_operator.sidecar.outbox import Outbox
from valkey_operator.sidecar.pod import Pod
from valkey_operator.sidecar.way import Way

AGAIN = 1.0
# For the last events, such as the server's end, which is proof that another may be primary.
PARTING = 1.0
log = logging.getLogger(__name__)


async def run(settings: SidecarSettings, asked_at: socket.socket) -> None:
    """Until SIGTERM, and as long after it as the server is there."""
    mtls.save_memory()
    outbox = Outbox()
    certificates = Certificates(settings.identity, outbox.tell)
    pod = Pod(settings, outbox.tell, certificates.fingerprints, lambda: outbox.heard_at)
    handover = Handover(settings.run, pod.leave)
    checks = {"ready": pod.why_not_ready, "live": lambda: None}
    running: dict[str, Callable[[], Awaitable[None]]] = {
        "door": pod.run,
        "handover": handover.run,
        "certificates": certificates.run,
        "channel": functools.partial(_serve, settings, pod, certificates),
        "heartbeat": functools.partial(_tell, settings, pod, certificates, outbox),
    }
    if not pod.is_in_cluster:  # there the others vote
        keeper = Keeper(pod, outbox.tell, functools.partial(_way, settings, certificates))
        running["lease"] = keeper.run
    pages = {"metrics": pod.metrics}
    opened = probes.opened(checks, asked_at, pages=pages, changes={"ready": pod.starts})
    async with opened, asyncio.TaskGroup() as group:
        parts = [group.create_task(_forever(part), name=name) for name, part in running.items()]
        told = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
        if settings.is_stopping:
            told.set()
        await told.wait()
        await pod.may_end()
        await _part(handover, pod, outbox)
        for part in parts:
            part.cancel()


async def _serve(settings: SidecarSettings, pod: Pod, certificates: Certificates) -> None:
    """Listen to the operator and the other nodes, as soon as there is a certificate to show."""
    credentials = await certificates.credentials()
    me = NodeIdentity(
        settings.namespace, settings.kind, settings.deployment, settings.node, settings.trust_domain
    )
    doorman = channel.Doorman(me, _operator(settings), pod.counts)
    async with channel.opened(pod, doorman, credentials, settings.channel_port):
        log.info("takes calls as %s", me)
        await asyncio.Event().wait()


async def _tell(settings: SidecarSettings, pod: Pod, certificates: Certificates, outbox: Outbox) -> None:
    """Send heartbeats, as soon as there is a certificate to show."""
    credentials = await certificates.credentials()
    service = Address.parse(settings.operator_address)
    await Sender(outbox, pod.observe, credentials, _operator(settings), service, pod.counts).run()


async def _way(settings: SidecarSettings, certificates: Certificates) -> Way:
    """One of its own for the lease: it must not wait behind a heartbeat."""
    credentials = await certificates.credentials()
    return Way(credentials, _operator(settings), Address.parse(settings.operator_address))


def _operator(settings: SidecarSettings) -> OperatorIdentity:
    return OperatorIdentity(settings.operator_namespace, settings.trust_domain)


async def _part(handover: Handover, pod: Pod, outbox: Outbox) -> None:
    """With the answer that the server's container waits for, and the last events."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PARTING):
            await handover.answered()
            await pod.server_is_gone()
            await outbox.emptied()


async def _forever(part: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await part()
        except Exception:
            log.exception("a part of the sidecar failed and is started again in %.0f s", AGAIN)
        await asyncio.sleep(AGAIN)


def main(asked_at: socket.socket) -> None:
    """The kubelet and Prometheus ask at this port."""
    settings = SidecarSettings.from_environment()
    logs.configure("json", settings.log_level)
    heap.keep_what_is_imported()
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(run(settings, asked_at))
