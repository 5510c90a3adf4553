"""Asks one API server: requests with a time limit each, and typed answers.

It waits and asks again where the server says so (429, Retry-After) and shows a new token when the old one is
refused; everything else is the caller's to decide. With a `Fence` no write leaves this process unless it
leads, and none may take longer than it leads for sure.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, TypeVar

import aiohttp
import msgspec

from valkey_operator.kube import errors, metrics, transport
from valkey_operator.kube.access import Access
from valkey_operator.kube.credentials import Identity
from valkey_operator.kube.objects import NONE, UNDECODABLE, Key, Page
from valkey_operator.kube.resources import EVERYTHING, PODS, Resource, Selection

T = TypeVar("T")
JsonObject = dict[str, Any]
Body = Mapping[str, Any] | msgspec.Struct | list[JsonObject]
Pairs = Mapping[str, str]

REQUEST_LIMIT = 30.0
PAGE = 500
CONCURRENT_REQUESTS = 16
METHODS = {
    "get": "GET", "list": "GET", "watch": "GET", "create": "POST", "evict": "POST", "replace": "PUT",
    "apply": "PATCH", "patch": "PATCH", "delete": "DELETE",
}  # fmt: skip
PATCHES = {
    "merge": {"Content-Type": "application/merge-patch+json"},
    "json": {"Content-Type": "application/json-patch+json"},
    "apply": {"Content-Type": "application/apply-patch+yaml"},
}


@dataclass(frozen=True)
class Request:
    """One thing to ask. `asked` says it to people, `verb` to metrics; what is empty in `query` is not sent."""

    verb: str
    method: str
    path: str
    asked: str
    body: Body | None = None
    query: Pairs = field(default_factory=dict)
    headers: Pairs = field(default_factory=dict)


class Client:
    """One API server, asked as one user, inside `async with`: it holds connections."""

    def __init__(
        self, access: Access, *, agent: str = "valkey-operator", fence: transport.Fence | None = None,
        limit: float = REQUEST_LIMIT,
    ) -> None:  # fmt: skip
        self.access = access
        self.limit = limit
        self.agent = agent
        self._fence = fence
        self._slots = asyncio.Semaphore(CONCURRENT_REQUESTS)

    async def __aenter__(self) -> Self:
        self._connections = transport.Connections()
        self._session = self._connections.session
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._connections.close()

    async def get(self, resource: Resource, key: Key, type_: type[T]) -> T:
        return await self.ask(_about("get", resource, key), type_)

    async def pages(
        self, resource: Resource, type_: type[T], namespace: str = "", selection: Selection = EVERYTHING,
        size: int = PAGE,
    ) -> AsyncIterator[Page[T]]:  # fmt: skip
        """A consistent list, page by page; in one where the size is 0. `Gone` in the middle means: begin again."""
        query, headers = {**selection.query(), "limit": str(size or "")}, selection.accept("List")
        request = _about_all("list", resource, namespace, None, query, headers)
        while True:
            page: Page[T] = await self.ask(request, Page[type_])  # type: ignore[valid-type]
            yield page
            if not page.metadata.continue_:
                return
            request = replace(request, query={**query, "continue": page.metadata.continue_})

    async def list_all(
        self, resource: Resource, type_: type[T], namespace: str = "", selection: Selection = EVERYTHING
    ) -> list[T]:
        pages = self.pages(resource, type_, namespace, selection)
        return [item async for page in pages for item in page.items or ()]

    async def watch(
        self, resource: Resource, namespace: str, selection: Selection, version: str, idle: float
    ) -> AsyncGenerator[list[bytes], None]:
        """The lines of a watch as they come, several at once where they came so; none as soon as it stands.

        Ends when the server ends it; raises `Unreachable` when nothing, not even a bookmark, came for `idle`
        seconds.
        """
        # The server would choose 30 to 60 minutes; shorter ends spread load and find a moved server.
        lasting = str(random.randint(240, 420))  # noqa: S311 - spread, not secrecy
        wanted = {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": version}
        query = {**selection.query(), **wanted, "timeoutSeconds": lasting}
        request = _about_all("watch", resource, namespace, None, query, selection.accept())
        started, who = time.monotonic(), await self.access.credentials.identity()
        try:
            async with self._send(request, who, idle=idle) as response:
                _count("watch", str(response.status), started)
                await self._refuse(response, who, request.asked)
                try:
                    yield []
                    async for lines in transport.lines(response.content):
                        yield lines
                finally:
                    transport.abort(response)
        except transport.FAILURES as error:
            raise errors.Unreachable(f"{request.asked}: {transport.words(error)}") from error

    async def create(self, resource: Resource, namespace: str, body: Body, type_: type[T]) -> T:
        return await self.ask(_about_all("create", resource, namespace, body), type_)

    async def apply(
        self, resource: Resource, key: Key, body: Body, type_: type[T], *, manager: str, force: bool = False,
        subresource: str = "", dry_run: bool = False,
    ) -> T:  # fmt: skip
        """Server-side apply: the fields of `body` become this manager's, those it no longer names go."""
        query = {"fieldManager": manager, "force": str(force).lower(), "dryRun": "All" if dry_run else ""}
        return await self.ask(
            _about("apply", resource, key, subresource, body, query, PATCHES["apply"]), type_
        )

    async def patch(
        self, resource: Resource, key: Key, body: Body, type_: type[T], *, subresource: str = "",
        form: Literal["merge", "json"] = "merge", manager: str = "",
    ) -> T:  # fmt: skip
        query = {"fieldManager": manager}
        return await self.ask(_about("patch", resource, key, subresource, body, query, PATCHES[form]), type_)

    async def replace(self, resource: Resource, key: Key, body: Body, type_: type[T]) -> T:
        """PUT: refused with `Conflict` unless `body` carries the resourceVersion that is current."""
        return await self.ask(_about("replace", resource, key, body=body), type_)

    async def delete(
        self, resource: Resource, key: Key, *, uid: str = "", version: str = "", after_its_own: bool = False
    ) -> msgspec.Raw:
        """Delete exactly the object that was seen: with `uid` or `version` another one is never hit.

        `after_its_own`: it stays, marked as being deleted, until everything it owns is gone.
        """
        conditions = {"uid": uid, "resourceVersion": version}
        known = {name: value for name, value in conditions.items() if value}
        body = {"preconditions": known, "propagationPolicy": "Foreground" if after_its_own else "Background"}
        return await self.ask(_about("delete", resource, key, body=body), msgspec.Raw)

    async def evict(self, key: Key, *, uid: str = "") -> None:
        """Ask a pod to go; `DisruptionRefused` when a budget holds it."""
        options = {"preconditions": {"uid": uid}} if uid else {}
        metadata = {"name": key.name, "namespace": key.namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, "deleteOptions": options}
        await self.ask(_about("evict", PODS, key, "eviction", body), msgspec.Raw)

    async def ask(self, request: Request, type_: type[T]) -> T:
        """Ask, and ask again as long as the server says "later" and the time limit holds."""
        # The limit is the server's: a credential program has its own, and somebody may have to log in.
        who, renewed = await self.access.credentials.identity(), False
        ends = time.monotonic() + self.limit
        while True:
            try:
                return decode(await self._once(request, who, ends - time.monotonic()), type_, request.asked)
            except errors.Unauthorized:
                if renewed:
                    raise
                who, renewed = await self.access.credentials.identity(), True
            except errors.Throttled as full:
                pause = full.retry_after * random.uniform(1.0, 1.25)  # noqa: S311 - spread, not secrecy
                if time.monotonic() + pause >= ends:
                    raise
                await asyncio.sleep(pause)

    @contextlib.asynccontextmanager
    async def websocket(
        self, path: str, query: list[tuple[str, str]], asked: str
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """An upgraded connection to a pod, in the channel protocol of exec and port-forward."""
        who, ends = await self.access.credentials.identity(), contextlib.AsyncExitStack()

        async def look(answer: aiohttp.ClientResponse) -> None:
            await self._refuse(answer, who, asked)
            if answer.connection is not None and answer.connection.transport is not None:
                ends.callback(answer.connection.transport.abort)  # closing alone would outlive this client

        # aiohttp throws the body of a refused upgrade away, unless a session looks at every answer first.
        looking = aiohttp.ClientSession(
            connector=self._session.connector, connector_owner=False, raise_for_status=look
        )
        async with ends, looking:
            try:
                async with asyncio.timeout(self.limit):
                    socket = await looking.ws_connect(
                        f"{self.access.server}{path}", params=query, max_msg_size=0,
                        protocols=transport.CHANNELS, timeout=transport.CLOSING, **self._way(who),
                    )  # fmt: skip
            except transport.FAILURES as error:
                raise errors.Unreachable(f"{asked}: {transport.words(error)}") from error
            ends.push_async_callback(socket.close)
            yield socket

    async def _once(self, request: Request, who: Identity, left: float) -> bytes:
        fence = self._fence if request.method != "GET" else None
        if fence is not None:
            left = min(left, fence.time_left())
        content = None if request.body is None else msgspec.json.encode(request.body)
        body = None if content is None else transport.FencedBody(content, fence)
        started, code = time.monotonic(), "unreachable"
        try:
            async with asyncio.timeout(left), self._slots, self._send(request, who, body) as response:
                code = str(response.status)
                await self._refuse(response, who, request.asked)
                return await response.read()
        except transport.FAILURES as error:
            if body is not None and body.held_back is not None:
                raise body.held_back from None
            raise errors.Unreachable(f"{request.asked}: {transport.words(error)}") from error
        finally:
            _count(request.verb, code, started)

    async def _refuse(self, response: aiohttp.ClientResponse, who: Identity, asked: str) -> None:
        if response.status == 401:
            self.access.credentials.forget(who)
        if response.status >= 400:
            raise errors.refusal(await response.read(), asked, response.status, response.headers)

    def _send(
        self, request: Request, who: Identity, body: transport.FencedBody | None = None,
        idle: float | None = None,
    ) -> aiohttp.client._RequestContextManager:  # fmt: skip
        headers = {"Content-Type": "application/json", "Accept": "application/json", **request.headers}
        return self._session.request(
            request.method, f"{self.access.server}{request.path}", data=body, allow_redirects=False,
            params={name: value for name, value in request.query.items() if value},
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=transport.CONNECT_LIMIT, sock_read=idle),
            **self._way(who, headers),
        )  # fmt: skip

    def _way(self, who: Identity, headers: Pairs = NONE) -> JsonObject:
        """To this server, as this user: how every connection begins."""
        # Inside a cluster, compressing costs the server more than the network.
        shown = {"User-Agent": self.agent, "Accept-Encoding": "identity", **self.access.headers, **headers}
        if who.token:
            shown["Authorization"] = f"Bearer {who.token}"
        tls = self.access.tls
        secured = {"ssl": tls.context(who), "server_hostname": tls.server_name} if tls is not None else {}
        return {"headers": shown, "proxy": self.access.proxy, **secured}


@functools.cache
def decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_)


def decode(content: bytes | msgspec.Raw, type_: type[T], asked: str) -> T:
    if type_ is msgspec.Raw:
        return msgspec.Raw(content)  # type: ignore[return-value]  # the caller wants it as it came
    try:
        value: T = decoder(type_).decode(content)  # type: ignore[arg-type]
    except UNDECODABLE as error:
        raise errors.Unreadable(f"{asked}: the answer cannot be read: {error}") from error
    return value


def _count(verb: str, code: str, started: float) -> None:
    metrics.REQUESTS.labels(verb, code).inc()
    metrics.REQUEST_SECONDS.labels(verb).observe(time.monotonic() - started)


def _about(
    verb: str, resource: Resource, key: Key, subresource: str = "", body: Body | None = None,
    query: Pairs = NONE, headers: Pairs = NONE,
) -> Request:  # fmt: skip
    asked, path = f"{verb} {resource} {key}", resource.path(key, subresource)
    asked += f" ({subresource})" if subresource else ""
    return Request(verb, METHODS[verb], path, asked, body, query, headers)


def _about_all(
    verb: str, resource: Resource, namespace: str, body: Body | None = None, query: Pairs = NONE,
    headers: Pairs = NONE,
) -> Request:  # fmt: skip
    asked, path = f"{verb} {resource}", resource.collection(namespace)
    asked += f" in {namespace}" if namespace else ""
    return Request(verb, METHODS[verb], path, asked, body, query, headers)
