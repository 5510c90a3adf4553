"""Are the custom resources under our names ours? Until that is sure, none of them is read, let alone changed.

The official operator's CRDs have names, group and version of ours, and mean something else. Discovery tells them apart
by their category, and needs no right to read CRDs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from valkey_operator.api import foreign
from valkey_operator.api.group import GROUP, VERSION
from valkey_operator.kube import errors
from valkey_operator.kube.backoff import Backoff
from valkey_operator.kube.client import Client, Request
from valkey_operator.kube.objects import Fields
from valkey_operator.kube.resources import Resource

PATH = f"/apis/{GROUP}/{VERSION}"
DISCOVERY = Request("get", "GET", PATH, f"ask which resources {GROUP}/{VERSION} has")
LONGEST_WAIT = 10.0

log = logging.getLogger(__name__)


class Served(Fields, frozen=True, gc=False):
    """A resource that the API server has."""

    name: str
    categories: tuple[str, ...] = ()


class Discovery(Fields, frozen=True, gc=False):
    """What the API server has of one group and version."""

    resources: tuple[Served, ...] = ()


class OwnKinds:
    """Of the resources that this process works with, those of our group."""

    def __init__(self, client: Client, resources: Iterable[Resource]) -> None:
        self._client = client
        self._needed = {resource.plural: str(resource) for resource in resources if resource.group == GROUP}
        self._why: str | None = "it has not been asked yet whose they are"

    def trouble(self) -> str | None:
        """For readiness."""
        return self._why

    async def confirm(self) -> None:
        """Returns when all of them are there and ours. Nobody tells when that is so: it is asked again and again."""
        backoff = Backoff(first=0.2, longest=LONGEST_WAIT)
        while (why := await self._why_not()) is not None:
            if why != self._why:
                log.warning("nothing is done yet: %s", why)
            self._why = why
            await asyncio.sleep(backoff.failed())
        self._why = None

    async def _why_not(self) -> str | None:
        try:
            found = await self._client.ask(DISCOVERY, Discovery)
        except errors.NotFound:
            found = Discovery()
        except errors.KubeError as error:
            return f"it cannot be seen whose they are: {error}"
        return reason(self._needed, found)


def reason(needed: dict[str, str], found: Discovery) -> str | None:
    """Why nothing may be done, or None. `needed`: full names by plural."""
    seen = {served.name: served.categories for served in found.resources if served.name in needed}
    foreign_ones = foreign.refusal({needed[plural]: categories for plural, categories in seen.items()})
    missing = sorted(name for plural, name in needed.items() if plural not in seen)
    if foreign_ones is None and missing:
        return f"{', '.join(missing)}: not installed; install the CRDs of this version"
    return foreign_ones
