"""What Kubernetes, Prometheus and people may ask this process: is it alive, is it ready, its figures, its log level."""

from __future__ import annotations

import functools
import ipaddress
import logging
import math
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager

import prometheus_client
from aiohttp import web

from valkey_operator.process import logs, serving

# Why not, in a sentence; None when all is well.
Check = Callable[[], str | None]
Checks = Mapping[str, Check]
FRESH = 1.0

log = logging.getLogger(__name__)


def opened(live: Checks, ready: Checks, host: str = "", port: int = 8080) -> AbstractAsyncContextManager[int]:
    """Serves inside `async with`, which yields the port."""
    app = web.Application()
    app.router.add_get("/livez", functools.partial(_examine, live))
    app.router.add_get("/readyz", functools.partial(_examine, ready))
    app.router.add_get("/metrics", _Metrics().answer)
    app.router.add_get("/loglevel", _show_level)
    app.router.add_put("/loglevel", _set_level)
    return serving.opened(app, host, port)


async def _examine(checks: Checks, request: web.Request) -> web.Response:
    reasons = {name: _reason(name, check) for name, check in checks.items()}
    lines = [f"[-]{name} failed: {why}" if why else f"[+]{name} ok" for name, why in reasons.items()]
    failed = any(reasons.values())
    lines.append(f"{request.path[1:]} check {'failed' if failed else 'passed'}")
    return web.Response(text="\n".join(lines) + "\n", status=503 if failed else 200)


def _reason(name: str, check: Check) -> str | None:
    try:
        return check()
    except Exception:  # a check that cannot be made has not passed
        log.warning("the health check %s cannot be made", name, exc_info=True)
        return "the check itself broke; the log says how"


class _Metrics:
    """Counted at most once a second, however many ask: it takes milliseconds in which nothing else is done."""

    def __init__(self) -> None:
        self._counted_at, self._content = -math.inf, b""

    async def answer(self, _: web.Request) -> web.Response:
        # In the loop, not in a thread: figures may be counted from caches that only the loop may touch.
        if (now := time.monotonic()) >= self._counted_at + FRESH:
            self._counted_at, self._content = now, prometheus_client.generate_latest()
        content_type = prometheus_client.CONTENT_TYPE_LATEST
        return web.Response(body=self._content, headers={"Content-Type": content_type})


async def _show_level(_: web.Request) -> web.Response:
    return web.Response(text=f"{logging.getLevelName(logging.root.level).lower()}\n")


async def _set_level(request: web.Request) -> web.Response:
    """Only from this pod itself, which is where `kubectl port-forward` comes out: Kubernetes decides who may."""
    if not _is_loopback(request.remote):
        sentence = "The log level can only be set through kubectl port-forward to this pod.\n"
        return web.Response(text=sentence, status=403)
    try:
        logs.set_level(request.query.get("level", ""))
    except ValueError as error:
        return web.Response(text=f"{error}\n", status=400)
    return await _show_level(request)


def _is_loopback(peer: str | None) -> bool:
    try:
        address = ipaddress.ip_address(peer or "")
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)  # IPv4, as a socket for both sees it
    return (mapped or address).is_loopback
