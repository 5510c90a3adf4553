"""Secrets of certificates whose names somebody else has: left alone, told, and nobody else goes without for it."""

from __future__ import annotations

import base64
import json

import pytest

from devcluster.cluster import Cluster
from tests.apiserver.test_operator_node import Place, looked_after
from tests.caches import eventually
from valkey_operator.operator import certificates

PRECIOUS = base64.b64encode(b"precious").decode()


def put(cluster: Cluster, namespace: str, name: str) -> None:
    """As a person would."""
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"tls.key": PRECIOUS}}
    cluster.kubectl("--namespace", namespace, "create", "-f", "-", stdin=json.dumps(body))


def there(place: Place) -> set[str]:
    return set(place.kubectl("get", "secrets", "--output=name").split())


@pytest.mark.usefixtures("no_operator")
@pytest.mark.parametrize(("name", "gets_one"), [("demo-0-mtls", True), ("demo-mtls-ca", False)])
async def test_a_secret_of_somebody_else_is_left_alone_and_told(
    crds: Cluster, namespace: str, name: str, *, gets_one: bool
) -> None:
    put(crds, namespace, name)
    async with looked_after(crds, namespace) as place:
        before = place.get("secret", name)
        place.wish(replicas=2)
        await eventually(lambda: "demo-0" in place.kubectl("get", "valkeynodes", "--output=name"))
        await eventually(lambda: f"Secret {name} is there already" in place.says())
        await eventually(lambda: f"Secret {name} is there already" in place.says("valkey", "demo"))
        # The other node has its certificate all the same, and the roots wait for nobody.
        await eventually(lambda: ("secret/demo-1-mtls" in there(place)) is gets_one)
        assert place.certificates._all_parties() is not None
        assert place.get("secret", name) == before
        place.kubectl("delete", "secret", name)
        await eventually(lambda: {"secret/demo-0-mtls", "secret/demo-mtls-ca"} <= there(place), 90)
        await eventually(lambda: "is there already" not in place.says())


@pytest.mark.usefixtures("no_operator")
@pytest.mark.parametrize("name", ["demo-0-mtls", "demo-mtls-ca"])
async def test_what_somebody_puts_in_the_place_of_ours_is_undone(
    crds: Cluster, namespace: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificates, "QUIET", 0.0)
    async with looked_after(crds, namespace) as place:
        place.wish()
        await eventually(lambda: "demo-0-mtls" in place.kubectl("get", "valkeycertificatebindings", "-ojson"))
        place.get("valkeycertificatebundle", "demo-cert-bundle")
    crds.kubectl("--namespace", namespace, "delete", "secret", name)
    put(crds, namespace, name)
    async with looked_after(crds, namespace) as place:
        await eventually(lambda: place.get("secret", name)["data"]["tls.key"] != PRECIOUS)
        assert "is there already" not in place.says()
