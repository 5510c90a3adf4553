"""The cluster that a command asks: chosen as kubectl chooses it, and asked with the user's own rights.

What talks to Kubernetes is imported only when a command asks: the others answer at once.
"""

from __future__ import annotations

import argparse
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from valkey_operator.api.kinds import GROUP, KINDS, VERSION
from valkey_operator.cli.command import Problem
from valkey_operator.render.marks import CLUSTER, last_good

if TYPE_CHECKING:
    from valkey_operator.kube.client import Client
    from valkey_operator.kube.resources import Resource

LIMIT = 30.0
# The server sends a bookmark about once a minute: a connection silent for longer is dead.
IDLE = 90.0
# Between two watches, where a server ends them at once.
PAUSE = 1.0
AGENT = "kubectl-valkey"
OPERATOR = "valkey-operator"
PLURALS = {kind.name: kind.plural_name for kind in KINDS}
Found = dict[str, Any]
T = TypeVar("T")


def add_name(parser: argparse.ArgumentParser, text: str | None = None) -> None:
    parser.add_argument("name", type=_object_name, help=text)


def _object_name(text: str) -> str:
    """Without one, the API server would answer with all there are; these are paths to something else."""
    if text in ("", ".", ".."):
        raise argparse.ArgumentTypeError(f"{text!r} is no name")
    return text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """kubectl's own, by kubectl's names; it hands a plugin only those that follow the plugin's name."""
    parser.add_argument("--namespace", "-n", help="default: that of the context")
    parser.add_argument("--context", help="default: the current one of the kubeconfig")
    parser.add_argument("--kubeconfig", help="default: KUBECONFIG, else ~/.kube/config")


@dataclass(frozen=True)
class Cluster:
    """Custom resources of one cluster; `namespace` is the one that the user means."""

    client: Client
    namespace: str

    async def get(self, kind: str, name: str, namespace: str | None = None) -> Found | None:
        """One object, or None when there is none of that name."""
        from valkey_operator.kube import errors, objects  # noqa: PLC0415 - see above

        key = objects.Key(namespace or self.namespace, name)
        try:
            found: Found = await self.client.get(_resource(kind), key, dict)
        except errors.NotFound as missing:
            if missing.status.reason == "NotFound":
                return None
            raise Problem(f"the cluster knows no {kind}: its CRDs are not installed") from None
        return found

    async def require(self, kind: str, name: str) -> Found:
        found = await self.get(kind, name)
        if found is None:
            raise self._missing(kind, name)
        return found

    async def kind_of(self, name: str) -> str:
        """Valkey or ValkeyCluster. Names of the two are never the same: the operator refuses that."""
        for kind in ("Valkey", "ValkeyCluster"):
            if await self.get(kind, name) is not None:
                return kind
        raise self._missing("Valkey or ValkeyCluster", name)

    def _missing(self, kind: str, name: str) -> Problem:
        where = f"in the namespace {self.namespace}"
        return Problem(f"there is no {kind} {name} {where}; `kubectl get valkey-all -A` lists all")

    async def nodes(self, deployment: Found) -> list[Found]:
        """Those of this very object, and of no namesake of another kind; by name."""
        from valkey_operator.kube import resources  # noqa: PLC0415 - see above

        metadata = deployment["metadata"]
        selection = resources.Selection(labels=f"{CLUSTER}={metadata['name']}")
        found = await self.client.list_all(_resource("ValkeyNode"), dict, self.namespace, selection)
        return sorted((each for each in found if metadata["uid"] in _owners(each)), key=_name)

    async def last_good(self, deployment: Found) -> Found | None:
        """The spec of a deployment when everything was well last, as the operator has noted it."""
        from valkey_operator.kube import errors, objects, resources  # noqa: PLC0415 - see above

        try:
            there: Found = await self.client.get(
                resources.SERVICES,
                objects.Key(self.namespace, f"{deployment['metadata']['name']}-headless"),
                dict,
            )
        except errors.NotFound:
            return None
        if deployment["metadata"]["uid"] not in _owners(there):
            return None
        return last_good(there["metadata"].get("annotations") or {})

    async def events(self) -> list[Found] | None:
        """What the operator said in this namespace; None where the user may not read it."""
        from valkey_operator.kube import errors, resources  # noqa: PLC0415 - see above

        selection = resources.Selection(fields=f"reportingController={OPERATOR}")
        try:
            return await self.client.list_all(resources.EVENTS, dict, self.namespace, selection)
        except errors.Forbidden:
            return None

    async def patch(self, kind: str, name: str, body: Found | list[Found]) -> Found:
        """A merge patch, or a JSON patch where the body is a list."""
        from valkey_operator.kube import objects  # noqa: PLC0415 - see above

        form: Any = "json" if isinstance(body, list) else "merge"
        key = objects.Key(self.namespace, name)
        return await self.client.patch(_resource(kind), key, body, dict, form=form, manager=AGENT)

    async def changes(self, kind: str, name: str) -> AsyncGenerator[Found | None, None]:
        """The object as it is, and again whenever it changes; None, as the last, when it is gone."""
        import asyncio  # noqa: PLC0415 - see above

        from valkey_operator.kube import errors  # noqa: PLC0415

        version = ""
        while (found := await self.get(kind, name)) is not None:
            if found["metadata"]["resourceVersion"] != version:
                yield found
            try:
                async with aclosing(self._watched(kind, found["metadata"])) as watched:
                    async for seen in watched:
                        yield seen
                        if seen is None:
                            return
                        version = seen["metadata"]["resourceVersion"]
            except (errors.Unreachable, errors.Gone):
                pass  # what was missed meanwhile is read below
            await asyncio.sleep(PAUSE)
        yield None

    async def _watched(self, kind: str, metadata: Found) -> AsyncGenerator[Found | None, None]:
        """What came after this version, until the server ends the watch."""
        from valkey_operator.kube import client, errors, objects, resources  # noqa: PLC0415 - see above

        selection = resources.Selection(fields=f"metadata.name={metadata['name']}")
        version = metadata["resourceVersion"]
        asked = f"watch {kind} {metadata['name']}"
        async with aclosing(
            self.client.watch(_resource(kind), self.namespace, selection, version, IDLE)
        ) as watch:
            async for line in (line async for lines in watch for line in lines):
                event = client.decode(line, objects.WatchEvent, asked)
                if event.type == "ERROR":
                    raise errors.refusal(bytes(event.object), asked)
                if event.type == "DELETED":
                    yield None
                elif event.type != "BOOKMARK":
                    yield client.decode(event.object, dict, asked)


def _resource(kind: str) -> Resource:
    from valkey_operator.kube import resources  # noqa: PLC0415 - see above

    return resources.Resource(kind, PLURALS[kind], GROUP, VERSION)


def ask(options: argparse.Namespace, question: Callable[[Cluster], Awaitable[T]]) -> T:
    import asyncio  # noqa: PLC0415 - see above

    from valkey_operator.kube import access, client, errors  # noqa: PLC0415

    async def asked() -> T:
        found = access.find(options.kubeconfig, options.context)
        found.proxy = found.proxy or access.environment_proxy(found.server)
        async with client.Client(found, agent=AGENT, limit=LIMIT) as opened:
            return await question(Cluster(opened, options.namespace or found.namespace))

    try:
        return asyncio.run(asked())
    except errors.Unreachable as error:
        raise Problem(f"{error}; look at `kubectl cluster-info`") from None
    except errors.KubeError as error:
        raise Problem(str(error)) from None


def _owners(found: Found) -> list[str]:
    return [owner["uid"] for owner in found["metadata"].get("ownerReferences") or ()]


def _name(found: Found) -> str:
    name: str = found["metadata"]["name"]
    return name
