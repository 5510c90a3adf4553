"""Admission webhooks: the API server asks over TLS before it stores an object, and gets a verdict within seconds.

The certificate may change while connections are open, and the configurations in the cluster are kept trusting
the authority behind it. What a handler does is its own; a broken one yields a sentence, never a stack trace.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Literal

import msgspec
from aiohttp import web

from valkey_operator.kube import metrics
from valkey_operator.kube.access import load_pair
from valkey_operator.kube.client import Client, JsonObject
from valkey_operator.kube.errors import Misconfigured
from valkey_operator.kube.objects import Fields, Object
from valkey_operator.kube.resources import Resource
from valkey_operator.process import serving

# An update carries the object twice, and one may have 3 MiB.
BODY_LIMIT = 7 * 1024 * 1024
# Of reviews that are larger than this so many are read at once: each connection might send one, to everybody's cost.
LARGE, MOST_LARGE = 256 * 1024, 4
# For a body on its way.
RECEIVE_LIMIT = 5.0
# The API server gives up after 10 s, and then without our sentence.
HANDLER_LIMIT = 8.0
REASONS = {400: "BadRequest", 403: "Forbidden", 409: "Conflict", 422: "Invalid", 429: "TooManyRequests"}
NOTHING = msgspec.Raw(b"null")

log = logging.getLogger(__name__)


class Kind(Fields, frozen=True, gc=False):
    group: str = ""
    version: str = ""
    kind: str = ""


class User(Fields, frozen=True, gc=False):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()


class Review(Fields, frozen=True, gc=False):
    """What is about to happen. The objects stay as they came: `null` where there is none."""

    uid: str
    kind: Kind
    operation: str
    namespace: str = ""
    name: str = ""
    sub_resource: str = ""
    user_info: User = User()
    object: msgspec.Raw = NOTHING
    old_object: msgspec.Raw = NOTHING
    options: msgspec.Raw = NOTHING
    dry_run: bool = False


class Verdict(Fields, frozen=True, gc=False):
    """`message` is for the person whose request is refused; `patch` (RFC 6902) changes one that is allowed."""

    allowed: bool = True
    message: str = ""
    code: int = 403
    warnings: tuple[str, ...] = ()
    patch: tuple[JsonObject, ...] = ()


ALLOWED = Verdict()
Handler = Callable[[Review], Awaitable[Verdict]]


class _Asked(Fields, frozen=True, gc=False):
    api_version: Literal["admission.k8s.io/v1"]
    request: Review


def opened(
    handlers: Mapping[str, Handler], certificate: Certificate, host: str = "", port: int = 9443
) -> AbstractAsyncContextManager[int]:
    """Serves inside `async with`, which yields the port."""
    app, bodies = web.Application(client_max_size=BODY_LIMIT), _Bodies()
    for path, handler in handlers.items():
        app.router.add_post(path, functools.partial(_answer, path, handler, bodies))
    return serving.opened(app, host, port, certificate.listening)


class _Bodies:
    """Reads what is sent, but only so much at once, and only for so long."""

    def __init__(self) -> None:
        self._large = 0

    async def read(self, request: web.Request) -> bytes:
        is_large = request.content_length is None or request.content_length > LARGE
        if (request.content_length or 0) > BODY_LIMIT:
            raise web.HTTPRequestEntityTooLarge(BODY_LIMIT, request.content_length or 0)
        if is_large and self._large >= MOST_LARGE:
            raise web.HTTPServiceUnavailable(text="Too many large reviews are being read; try again.\n")
        self._large += is_large
        try:
            async with asyncio.timeout(RECEIVE_LIMIT):
                return await request.read()
        except TimeoutError:
            sentence = f"The review did not arrive within {RECEIVE_LIMIT:g} s.\n"
            raise web.HTTPRequestTimeout(text=sentence) from None
        finally:
            self._large -= is_large


async def _answer(path: str, handler: Handler, bodies: _Bodies, request: web.Request) -> web.Response:
    counted = metrics.WEBHOOK_REQUESTS
    body = await bodies.read(request)
    try:
        asked = msgspec.json.decode(body, type=_Asked)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        counted.labels(path, "unreadable").inc()
        return web.Response(text=f"This is no AdmissionReview of admission.k8s.io/v1: {error}.\n", status=400)
    review = asked.request
    try:
        async with asyncio.timeout(HANDLER_LIMIT):
            verdict = await handler(review)
        body = msgspec.json.encode(_response(review, verdict))
    except Exception as error:  # the boundary: whatever breaks, the API server gets a sentence
        about = f"{review.operation} {review.kind.kind} {review.namespace}/{review.name}"
        log.exception("the webhook %s failed on %s", path, about, extra={"uid": review.uid})
        counted.labels(path, "failed").inc()
        what = f"took longer than {HANDLER_LIMIT:g} s" if isinstance(error, TimeoutError) else "failed"
        return web.Response(text=f"The check of this {review.kind.kind} {what}; try again.\n", status=500)
    counted.labels(path, "allowed" if verdict.allowed else "refused").inc()
    return web.Response(body=body, content_type="application/json")


def _response(review: Review, verdict: Verdict) -> JsonObject:
    response: JsonObject = {"uid": review.uid, "allowed": verdict.allowed, "warnings": verdict.warnings}
    if not verdict.allowed:
        reason = REASONS.get(verdict.code, "Forbidden")
        response["status"] = {"code": verdict.code, "message": verdict.message, "reason": reason}
    elif verdict.patch:
        response |= {"patchType": "JSONPatch", "patch": msgspec.json.encode(verdict.patch)}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


class Certificate:
    """The pair shown to whoever connects: two files, or set from memory. A pair that does not fit is never shown.

    `listening` holds no certificate: each handshake is handed the newest context, with or without SNI, and open
    connections keep theirs.
    """

    def __init__(self, *files: Path) -> None:
        """Of `files`, certificate and key; without, the pair has to be set."""
        self._files = files
        self._state: list[tuple[int, int]] = []
        self._said = ""
        self._newest: ssl.SSLContext | None = None
        self.listening = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.listening.sni_callback = self._choose
        self.problem()

    def set_certificate(self, certificate: bytes, key: bytes) -> None:
        """Show this pair from now on, or raise `Misconfigured` and keep the one before."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            load_pair(context, certificate, key)
        except (OSError, ValueError) as error:
            raise Misconfigured(f"certificate and key are no pair: {error}") from None
        self._newest = context

    def problem(self) -> str | None:
        """Why nobody can connect: a readiness check. Looks at the files as each handshake does."""
        try:
            # Before reading: what changes in between is seen as changed the next time.
            state = [(file.stat().st_ino, file.stat().st_mtime_ns) for file in self._files]
            if state != self._state:
                self.set_certificate(*[file.read_bytes() for file in self._files])
                self._state, self._said = state, ""
        except (OSError, Misconfigured) as error:
            if str(error) != self._said:  # once, not at every handshake
                log.warning("the serving certificate cannot be used, what was shown before stays: %s", error)
            self._said = str(error)
        return None if self._newest else "there is no serving certificate yet"

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _: ssl.SSLContext) -> int | None:
        self.problem()
        if self._newest is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._newest
        return None


class ClientConfig(Fields, frozen=True, gc=False):
    ca_bundle: bytes = b""


class Webhook(Fields, frozen=True, gc=False):
    name: str
    client_config: ClientConfig = ClientConfig()


class WebhookConfiguration(Object, frozen=True, gc=False):
    """A Validating- or MutatingWebhookConfiguration, as far as trust goes."""

    webhooks: tuple[Webhook, ...] = ()


async def keep_trusted(
    client: Client, resource: Resource, seen: WebhookConfiguration, bundle: bytes
) -> tuple[str, ...]:
    """Make the API server trust `bundle`; the names of the webhooks that did not. Nothing is sent if all did.

    `Conflict` when the configuration is no longer the one that was seen.
    """
    wrong = {i: hook.name for i, hook in enumerate(seen.webhooks) if hook.client_config.ca_bundle != bundle}
    if wrong:
        value = base64.b64encode(bundle).decode()
        patch: list[JsonObject] = [
            {"op": "add", "path": f"/webhooks/{i}/clientConfig/caBundle", "value": value} for i in wrong
        ]
        # A stale version is a conflict, so no index can hit another webhook than the one that was read.
        version = seen.metadata.resource_version
        patch.append({"op": "replace", "path": "/metadata/resourceVersion", "value": version})
        await client.patch(resource, seen.key, patch, msgspec.Raw, form="json")
    return tuple(wrong.values())
