"""The webhook server asked by a real API server, and the trust in its certificate.

Every configuration made here holds for one namespace and one label alone, and is gone after its test.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from devcluster.cluster import EmbeddedCluster
from tests.certificates import Authority
from valkey_operator.kube import access, webhook
from valkey_operator.kube.client import Client
from valkey_operator.kube.errors import Conflict, Invalid, KubeError, ServerFault
from valkey_operator.kube.objects import NONE, Key, Object
from valkey_operator.kube.resources import CONFIG_MAPS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from valkey_operator.kube.webhook import ALLOWED, Certificate, Review, Verdict, WebhookConfiguration

LABEL = {"valkey.io/test": "webhook"}
FIRST, SECOND = "first.test.valkey.io", "second.test.valkey.io"
OLD, NEW = Authority("old"), Authority("new")


class ConfigMap(Object, frozen=True, gc=False):
    data: Mapping[str, str] = NONE


async def judge(review: Review) -> Verdict:
    data = msgspec.json.decode(review.object, type=ConfigMap).data
    if data.get("colour") == "red":
        return Verdict(allowed=False, message="Red is for fire engines; take another colour.", code=422)
    if data.get("colour") == "broken":
        raise RuntimeError("swordfish")
    return ALLOWED


async def paint(_: Review) -> Verdict:
    return Verdict(patch=({"op": "add", "path": "/data/painted", "value": "yes"},))


@dataclass
class Hooked:
    """A server of ours that the API server asks about labelled ConfigMaps of one namespace."""

    client: Client
    namespace: str
    host: str
    resource: Resource
    certificate: Certificate = field(default_factory=Certificate)
    reviews: int = 0
    shaken: asyncio.Event = field(default_factory=asyncio.Event)  # somebody connects

    def __post_init__(self) -> None:
        choose = self.certificate.listening.sni_callback
        assert choose is not None

        def notice(connection: ssl.SSLObject, name: str, context: ssl.SSLContext) -> int | None:
            self.shaken.set()
            return choose(connection, name, context)

        self.certificate.listening.sni_callback = notice
        self.serve(OLD)

    def serve(self, authority: Authority) -> None:
        pair = authority.issue(self.host)
        self.certificate.set_certificate(pair.certificate, pair.key)

    @property
    def key(self) -> Key:
        return Key("", f"{self.namespace}.valkey.io")

    async def seen(self) -> WebhookConfiguration:
        return await self.client.get(self.resource, self.key, WebhookConfiguration)

    async def trust(self, *authorities: Authority) -> list[str]:
        bundle = b"".join(authority.certificate for authority in authorities)
        return list(await webhook.keep_trusted(self.client, self.resource, await self.seen(), bundle))

    async def put(self, **data: str) -> ConfigMap:
        """What would be stored. Only a try, but the webhook is asked all the same."""
        key = Key(self.namespace, "tried")
        metadata = {"name": key.name, "labels": LABEL}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        return await self.client.apply(CONFIG_MAPS, key, body, ConfigMap, manager="test", dry_run=True)

    async def put_again_and_again(self) -> None:
        async with asyncio.timeout(30):
            while True:
                await self.put()

    async def judge(self, review: Review) -> Verdict:
        self.reviews += 1
        return await judge(review)

    async def paint(self, review: Review) -> Verdict:
        self.reviews += 1
        return await paint(review)

    async def asked(self) -> None:
        """Until the API server knows the configuration, and trusts it."""
        async with asyncio.timeout(30):
            while not self.reviews:
                with suppress(ServerFault):  # not trusted yet
                    await self.put()


def configuration(name: str, namespace: str, url: str) -> dict[str, Any]:
    usual = {
        "clientConfig": {"url": url},
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}
        ],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "objectSelector": {"matchLabels": LABEL},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    idle = {**usual, "name": SECOND, "objectSelector": {"matchLabels": {"valkey.io/test": "nobody"}}}
    return {"metadata": {"name": name}, "webhooks": [{**usual, "name": FIRST}, idle]}


@asynccontextmanager
async def hooked(
    cluster: EmbeddedCluster, namespace: str, resource: Resource = VALIDATING_WEBHOOKS, path: str = "/judge"
) -> AsyncIterator[Hooked]:
    host = cluster.record.addresses.host
    async with Client(access.from_kubeconfig(str(cluster.kubeconfig))) as client:
        made = Hooked(client, namespace, host, resource)
        handlers = {"/judge": made.judge, "/paint": made.paint}
        async with webhook.opened(handlers, made.certificate, host, 0) as port:
            body = configuration(made.key.name, namespace, f"https://{host}:{port}{path}")
            await client.create(resource, "", body, msgspec.Raw)
            try:
                yield made
            finally:
                await client.delete(resource, made.key)


@asynccontextmanager
async def trusted(
    cluster: EmbeddedCluster, namespace: str, resource: Resource = VALIDATING_WEBHOOKS, path: str = "/judge"
) -> AsyncIterator[Hooked]:
    async with hooked(cluster, namespace, resource, path) as made:
        await made.trust(OLD)
        await made.asked()
        yield made


async def test_a_refusal_reaches_whoever_asked_with_our_sentence(
    embedded_cluster: EmbeddedCluster, namespace: str
) -> None:
    async with trusted(embedded_cluster, namespace) as made:
        with pytest.raises(Invalid, match="denied the request: Red is for fire engines; take another"):
            await made.put(colour="red")


async def test_what_is_allowed_is_stored(embedded_cluster: EmbeddedCluster, namespace: str) -> None:
    async with trusted(embedded_cluster, namespace) as made:
        assert (await made.put(colour="blue")).data == {"colour": "blue"}


async def test_a_patch_changes_what_is_stored(embedded_cluster: EmbeddedCluster, namespace: str) -> None:
    async with trusted(embedded_cluster, namespace, MUTATING_WEBHOOKS, "/paint") as made:
        assert (await made.put(colour="blue")).data == {"colour": "blue", "painted": "yes"}


async def test_a_broken_handler_shows_its_sentence_and_no_trace(
    embedded_cluster: EmbeddedCluster, namespace: str
) -> None:
    async with trusted(embedded_cluster, namespace) as made:
        with pytest.raises(ServerFault) as raised:
            await made.put(colour="broken")
    assert "The check of this ConfigMap failed; try again." in str(raised.value)
    assert "swordfish" not in str(raised.value)


async def test_a_certificate_of_nobody_trusted_is_not_asked(
    embedded_cluster: EmbeddedCluster, namespace: str
) -> None:
    async with hooked(embedded_cluster, namespace) as made:
        await made.trust(NEW)
        with pytest.raises(ServerFault, match="certificate signed by unknown authority"):
            await made.put_again_and_again()
        assert made.reviews == 0


async def test_the_bundle_is_written_where_it_differs_and_nowhere_else(
    embedded_cluster: EmbeddedCluster, namespace: str
) -> None:
    async with hooked(embedded_cluster, namespace) as made:
        assert await made.trust(OLD) == [FIRST, SECOND]
        before = await made.seen()
        assert {hook.client_config.ca_bundle for hook in before.webhooks} == {OLD.certificate}
        wrong = {"op": "remove", "path": "/webhooks/1/clientConfig/caBundle"}
        await made.client.patch(made.resource, made.key, [wrong], msgspec.Raw, form="json")
        assert await made.trust(OLD) == [SECOND]
        assert (await made.seen()).webhooks == before.webhooks


async def test_a_bundle_that_is_right_is_not_written(
    embedded_cluster: EmbeddedCluster, namespace: str
) -> None:
    async with hooked(embedded_cluster, namespace) as made:
        await made.trust(OLD)
        before = await made.seen()
        assert await made.trust(OLD) == []
        assert await made.seen() == before


async def test_a_configuration_that_changed_since_it_was_seen_is_not_touched(
    embedded_cluster: EmbeddedCluster, namespace: str
) -> None:
    async with hooked(embedded_cluster, namespace) as made:
        stale = await made.seen()
        change = {"metadata": {"labels": {"changed": "since"}}}
        await made.client.patch(made.resource, made.key, change, msgspec.Raw)
        with pytest.raises(Conflict):
            await webhook.keep_trusted(made.client, made.resource, stale, OLD.certificate)


async def test_certificate_and_authority_change_under_load_without_a_failed_request(
    embedded_cluster: EmbeddedCluster, namespace: str
) -> None:
    failures: list[KubeError] = []
    enough = asyncio.Event()

    async def load(made: Hooked) -> None:
        while not enough.is_set():
            try:
                await made.put(colour="blue")
            except KubeError as error:
                failures.append(error)

    async with (
        trusted(embedded_cluster, namespace) as made,
        asyncio.timeout(60),
        asyncio.TaskGroup() as group,
    ):
        group.create_task(load(made))
        for step in ((OLD, NEW), (NEW,)):
            made.shaken.clear()
            assert await made.trust(*step) == [FIRST, SECOND]
            await made.shaken.wait()
            made.serve(NEW)
        wanted = made.reviews + 20
        while made.reviews < wanted:
            await made.put(colour="blue")
        enough.set()
    assert failures == []
