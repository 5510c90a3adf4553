"""The cluster that a command asks: chosen as kubectl chooses it, and asked with the user's own rights.

What talks to Kubernetes is imported only when a command asks: the others answer at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from valkey_operator.api.kinds import GROUP, KINDS, VERSION
from valkey_operator.cli.command import Problem

if TYPE_CHECKING:
    from valkey_operator.kube.client import Client

LIMIT = 30.0
PLURALS = {kind.name: kind.plural_name for kind in KINDS}


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

    async def get(self, kind: str, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        """One object, or None when there is none of that name."""
        from valkey_operator.kube import errors, objects, resources  # noqa: PLC0415 - see above

        resource = resources.Resource(kind, PLURALS[kind], GROUP, VERSION)
        key = objects.Key(namespace or self.namespace, name)
        try:
            found: dict[str, Any] = await self.client.get(resource, key, dict)
        except errors.NotFound as missing:
            if missing.status.reason == "NotFound":
                return None
            raise Problem(f"the cluster knows no {kind}: its CRDs are not installed") from None
        return found


def ask(options: argparse.Namespace, question: Callable[[Cluster], Awaitable[str]]) -> str:
    import asyncio  # noqa: PLC0415 - see above

    from valkey_operator.kube import access, client, errors  # noqa: PLC0415

    async def asked() -> str:
        found = access.find(options.kubeconfig, options.context)
        async with client.Client(found, agent="kubectl-valkey", limit=LIMIT) as opened:
            return await question(Cluster(opened, options.namespace or found.namespace))

    try:
        return asyncio.run(asked())
    except errors.Unreachable as error:
        raise Problem(f"{error}; look at `kubectl cluster-info`") from None
    except errors.KubeError as error:
        raise Problem(str(error)) from None
