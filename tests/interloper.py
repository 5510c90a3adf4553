"""Stands between a client and a real API server and plays what networks, crashes and stale caches do.

The three patterns of Sieve (OSDI '22) - cut after any action, an event that is never seen, a list from the
past - and connections that break, freeze or are refused. It is faithful until told otherwise, and keeps a
record of all it did.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import yarl
from aiohttp import web

from valkey_operator.kube import access, transport

Json = dict[str, Any]
Match = Callable[[str, str], bool]

WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
# They belong to one connection, or change when a body is passed on piece by piece.
HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "accept-encoding"}
)
# What names a part or an age of a list, not the list.
PAGING = frozenset({"continue", "limit", "resourceVersion", "resourceVersionMatch", "timeoutSeconds"})


class _CutOff(Exception):
    """The client gets no answer: its connection ends."""


@dataclass
class Asked:
    """One request as it came, and what became of it."""

    method: str
    path: str
    query: Mapping[str, str]
    fate: str = "waits"

    @property
    def is_write(self) -> bool:
        return self.method in WRITES

    @property
    def is_watch(self) -> bool:
        return self.query.get("watch") in ("1", "true")

    @property
    def is_list(self) -> bool:
        return self.method == "GET" and not self.is_watch and _is_collection(self.path)


@dataclass
class _Told:
    """An answer to give in place of the server's."""

    match: Match
    status: int
    headers: Mapping[str, str]
    body: bytes
    left: float


@dataclass
class _Dropping:
    matches: Callable[[str, Json], bool]
    left: float


class _OldLists:
    """Answers to LISTs, page by page: of each list the first that came since the beginning."""

    def __init__(self) -> None:
        self._pages: dict[object, dict[str, Json]] = {}

    def remember(self, asked: Asked, accept: str, body: bytes) -> None:
        pages = self._pages.setdefault(self._name(asked, accept), {})
        pages.setdefault(asked.query.get("continue", ""), json.loads(body))

    def answer(self, asked: Asked, accept: str) -> Json | None:
        """The remembered list, in pages of the size that is asked for now; None where it is not whole."""
        whole = self._whole(self._pages.get(self._name(asked, accept), {}))
        if whole is None:
            return None
        begins = int(asked.query.get("continue", "old-0").removeprefix("old-"))
        ends = begins + (int(asked.query.get("limit", "0")) or len(whole["items"]))
        metadata = {"resourceVersion": whole["metadata"]["resourceVersion"]}
        if ends < len(whole["items"]):
            metadata["continue"] = f"old-{ends}"
        return {**whole, "metadata": metadata, "items": whole["items"][begins:ends]}

    def _whole(self, pages: dict[str, Json]) -> Json | None:
        items: list[Json] = []
        page = pages.get("")
        while page is not None:
            items += page["items"] or []
            token = page["metadata"].get("continue", "")
            if not token:
                return {**page, "items": items}
            page = pages.get(token)
        return None

    def _name(self, asked: Asked, accept: str) -> object:
        selection = frozenset((name, value) for name, value in asked.query.items() if name not in PAGING)
        return asked.path, selection, accept


class Interloper:
    """A reverse proxy on loopback; `access` leads a client through it, with the kubeconfig's own rights.

    `actions` says which writes `cut_after` counts (a lease renewed by the clock is none, say). `heal` ends what
    is broken about connections; lists and events have ends of their own.
    """

    def __init__(self, kubeconfig: Path, actions: Match = lambda _method, _path: True) -> None:
        self._upstream = access.from_kubeconfig(str(kubeconfig))
        self._is_action = actions
        self.requests: list[Asked] = []
        self.writes: list[tuple[str, str]] = []  # actions that were forwarded
        self.dropped: list[tuple[str, Json]] = []
        self.was_cut = asyncio.Event()
        self._open: dict[int, tuple[Asked, asyncio.Transport]] = {}
        self._actions_left: int | None = None
        self._cuts_before = False
        self._refuses_watches = False
        self._flows, self._watches_flow = asyncio.Event(), asyncio.Event()
        self._flows.set()
        self._watches_flow.set()
        self._told: list[_Told] = []
        self._dropping: list[_Dropping] = []
        self._old: _OldLists | None = None
        self._remembers = self._serves_old = False

    async def __aenter__(self) -> Self:
        self._connections = transport.Connections()
        application = web.Application(client_max_size=1 << 26)
        application.router.add_route("*", "/{anything:.*}", self._serve)
        # A client that goes takes its request along, as a process that dies does.
        self._runner = web.AppRunner(
            application, access_log=None, handler_cancellation=True, shutdown_timeout=5
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.access = access.Access(f"http://{host}:{port}", namespace=self._upstream.namespace)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._abort(lambda _asked: True)
        await self._runner.cleanup()
        await self._connections.close()

    # Cut after an action

    def cut_after(self, count: int) -> None:
        """The count-th write from now on takes place, but its answer and all that follows is cut off."""
        self._actions_left, self._cuts_before = count, count == 0
        self.was_cut.clear()

    def cut_before(self, count: int) -> None:
        """The count-th write from now on never arrives, and nothing after it."""
        self._actions_left, self._cuts_before = count - 1, True
        self.was_cut.clear()

    # Lose an event

    def drop_events(self, matches: Callable[[str, Json], bool], count: float = 1) -> None:
        """Swallow the next `count` (or `math.inf`) watch events of which `matches(type, object)` is true."""
        self._dropping.append(_Dropping(matches, count))

    # Go back in time

    def remember_lists(self) -> None:
        """From now on keep, of each list, the first answer."""
        self._old, self._remembers = _OldLists(), True

    def serve_old_lists(self, hold_watches: bool = False) -> None:
        """Answer lists with what was kept, where it was; with `hold_watches` as a server that lags behind."""
        self._remembers, self._serves_old = False, True
        if hold_watches:
            self._watches_flow.clear()

    def serve_fresh_lists(self) -> None:
        self._serves_old = False
        self._watches_flow.set()

    # Break connections

    def disconnect(self, refuse: bool = False) -> int:
        """End all open watches, and with `refuse` new ones too until `heal`; returns how many were open."""
        self._refuses_watches = refuse
        return self._abort(lambda asked: asked.is_watch)

    def freeze(self) -> None:
        """Connections stay open and new ones are taken, but nothing passes in either direction."""
        self._flows.clear()

    def answer(
        self,
        status: int,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        match: Match = lambda _method, _path: True,
        count: float = 1,
    ) -> None:
        """Answer the next `count` (or `math.inf`) matching requests in place of the server."""
        self._told.append(_Told(match, status, headers or {}, body, count))

    def heal(self) -> None:
        """Connections work again: nothing is cut, frozen, refused or answered in the server's place."""
        self._actions_left, self._cuts_before, self._refuses_watches = None, False, False
        self.was_cut.clear()
        self._told.clear()
        self._flows.set()

    # What was asked

    @property
    def lists(self) -> list[Asked]:
        return [asked for asked in self.requests if asked.is_list]

    @property
    def watches(self) -> list[Asked]:
        return [asked for asked in self.requests if asked.is_watch]

    @property
    def open_watches(self) -> int:
        """How many watches the client holds now."""
        return sum(asked.is_watch and asked.fate == "forwarded" for asked, _ in self._open.values())

    # How

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        asked = Asked(request.method, request.path, dict(request.query))
        self.requests.append(asked)
        connection = request.transport
        if connection is None:
            return web.Response()  # it is gone already
        self._open[id(asked)] = asked, connection
        try:
            return await self._treat(request, asked)
        except (_CutOff, *transport.FAILURES):
            asked.fate = "cut off"
            connection.abort()
            return web.Response()
        finally:
            del self._open[id(asked)]

    async def _treat(self, request: web.Request, asked: Asked) -> web.StreamResponse:
        body = await request.read()
        await self._flows.wait()
        if self.was_cut.is_set() or (asked.is_watch and self._refuses_watches):
            raise _CutOff
        if (told := self._told_answer(asked)) is not None:
            return told
        accept = request.headers.get("Accept", "")
        if asked.is_list and self._serves_old and self._old is not None:
            old = self._old.answer(asked, accept)
            if old is not None:
                asked.fate = "answered with an old list"
                return web.json_response(old)
        return await self._forward(request, asked, body)

    def _told_answer(self, asked: Asked) -> web.Response | None:
        for told in self._told:
            if told.left > 0 and told.match(asked.method, asked.path):
                told.left -= 1
                asked.fate = f"answered {told.status}"
                headers = {"Content-Type": "application/json", **told.headers}
                return web.Response(status=told.status, headers=headers, body=told.body)
        return None

    async def _forward(self, request: web.Request, asked: Asked, body: bytes) -> web.StreamResponse:
        is_last = self._take_action(asked)
        who = await self._upstream.credentials.identity()
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        if who.token:
            headers.setdefault("Authorization", f"Bearer {who.token}")
        sending = self._connections.session.request(
            request.method,
            yarl.URL(f"{self._upstream.server}{request.raw_path}", encoded=True),
            headers={**headers, "Accept-Encoding": "identity"},
            data=body or None,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=transport.CONNECT_LIMIT),
            allow_redirects=False,
            ssl=self._upstream.tls.context(who) if self._upstream.tls else True,
        )
        async with sending as answer:
            asked.fate = "forwarded"
            if is_last:
                self._cut_off()
            try:
                return await self._relay(request, asked, answer)
            finally:
                transport.abort(answer)  # does nothing where the answer was read to its end

    def _take_action(self, asked: Asked) -> bool:
        """Count a write; True when the cut follows it. Raises where the cut is before it."""
        if not asked.is_write or not self._is_action(asked.method, asked.path):
            return False
        if self._actions_left == 0:
            if self._cuts_before:
                self._cut_off()
            raise _CutOff  # the last one is on its way, and this is one more
        self.writes.append((asked.method, asked.path))
        if self._actions_left is None:
            return False
        self._actions_left -= 1
        return self._actions_left == 0 and not self._cuts_before

    def _cut_off(self) -> None:
        self.was_cut.set()
        self._abort(lambda _asked: True)
        raise _CutOff

    def _abort(self, chosen: Callable[[Asked], bool]) -> int:
        doomed = [(asked, connection) for asked, connection in self._open.values() if chosen(asked)]
        for asked, connection in doomed:
            asked.fate = "cut off"
            connection.abort()
        return len(doomed)

    async def _relay(
        self, request: web.Request, asked: Asked, answer: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        headers = {name: value for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP}
        response = web.StreamResponse(status=answer.status, headers=headers)
        await self._flows.wait()
        await response.prepare(request)
        async for piece in self._pieces(asked, request.headers.get("Accept", ""), answer):
            await self._flows.wait()
            await response.write(piece)
        await response.write_eof()
        return response

    async def _pieces(
        self, asked: Asked, accept: str, answer: aiohttp.ClientResponse
    ) -> AsyncIterator[bytes]:
        if asked.is_watch:
            async for lines in transport.lines(answer.content):
                for line in lines:
                    if not self._drops(line):
                        await self._watches_flow.wait()
                        yield line + b"\n"
        elif asked.is_list and self._remembers and self._old is not None and answer.status == 200:
            body = await answer.read()
            self._old.remember(asked, accept, body)
            yield body
        else:
            async for piece in answer.content.iter_any():
                yield piece

    def _drops(self, line: bytes) -> bool:
        waiting = [rule for rule in self._dropping if rule.left > 0]
        if not waiting:
            return False
        event = json.loads(line)
        for rule in waiting:
            if rule.matches(event["type"], event["object"]):
                rule.left -= 1
                self.dropped.append((event["type"], event["object"]))
                return True
        return False


def _is_collection(path: str) -> bool:
    """Whether many objects are asked for: /api/v1/pods, /apis/apps/v1/namespaces/x/deployments."""
    root, *parts = path.strip("/").split("/")
    kind = parts[2:] if root == "apis" else parts[1:]
    if kind[:1] == ["namespaces"] and len(kind) == 3:
        return kind[2] not in ("status", "finalize")
    return len(kind) == 1
