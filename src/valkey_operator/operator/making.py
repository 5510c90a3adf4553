"""What every deployment has, whatever its topology: users, a Secret for applications, a budget for disruptions."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from valkey_operator.kube import errors
from valkey_operator.kube.objects import Key, ManagedObject
from valkey_operator.kube.resources import SECRETS
from valkey_operator.model.deployment import Deployment
from valkey_operator.operator.seen import Custom
from valkey_operator.operator.world import World
from valkey_operator.render import connection, disruption, service, system_users, users

log = logging.getLogger(__name__)


@contextmanager
def noting(denied: list[str]) -> Iterator[None]:
    """Why something may not be, until somebody changes that: it is told, and the rest goes on."""
    try:
        yield
    except errors.NamespaceEnds:
        raise
    except errors.DENIED as why:
        log.debug("%s", why)  # the status tells it; here it would stand with every look
        denied.append(str(why))


class Making:
    def __init__(self, world: World) -> None:
        self._world = world

    async def users(self, deployment: Deployment) -> None:
        """Passwords are made once and never seen again: they go from here into the Secret."""
        name = users.secret_name(deployment.name)
        if Key(deployment.namespace, name) in self._world.caches.secrets.store:
            return
        passwords = {user: secrets.token_urlsafe(32) for user in users.RULES}
        body = {"apiVersion": "v1", "kind": "Secret", **system_users.system_users(deployment, passwords)}
        try:
            made = await self._world.client.create(SECRETS, deployment.namespace, body, ManagedObject)
        except errors.AlreadyExists:
            # Or it was made a moment ago, be it for another deployment: then all is tried again.
            raise errors.Taken("Secret", name) from None
        self._world.caches.secrets.store.put(made)

    async def rest(self, deployment: Deployment, nodes: Iterable[Custom], denied: list[str]) -> None:
        """Beside the Services that a topology moves by itself."""
        staying = sum(not node.metadata.deletion_timestamp for node in nodes)
        with noting(denied):
            await self._drop_services(deployment)
        with noting(denied):
            await self._world.writer.apply(
                self._world.caches.secrets, connection.connection_secret(deployment)
            )
        with noting(denied):
            await self._budget(deployment, staying)

    async def _budget(self, deployment: Deployment, nodes: int) -> None:
        budgets = self._world.caches.budgets
        wanted = disruption.disruption_budget(deployment, nodes)
        if wanted is not None:
            await self._world.writer.apply(budgets, wanted)
            return
        there = budgets.store.get(Key(deployment.namespace, deployment.name))
        if there is not None and _is_owned(there, deployment):
            await self._world.writer.delete(budgets, there)

    async def _drop_services(self, deployment: Deployment) -> None:
        services = self._world.caches.services
        for name in service.unwanted_services(deployment):
            there = services.store.get(Key(deployment.namespace, name))
            if there is not None and _is_owned(there, deployment):
                await self._world.writer.delete(services, there)


def _is_owned(item: ManagedObject, deployment: Deployment) -> bool:
    return any(owner.uid == deployment.uid for owner in item.metadata.owner_references)
