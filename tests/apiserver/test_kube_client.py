"""The client against a real API server: what it asks, what it hears, and what it survives."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from devcluster.cluster import Cluster
from devcluster.faults import Faults
from tests.caches import nothing_left_running
from tests.certificates import Authority
from tests.devcluster import servers
from valkey_operator.kube import access, errors
from valkey_operator.kube.access import Access
from valkey_operator.kube.client import Client, Request
from valkey_operator.kube.credentials import TokenFile
from valkey_operator.kube.objects import Key, ManagedObject, Object
from valkey_operator.kube.resources import CONFIG_MAPS, LEASES, PODS, Resource, Selection

DISRUPTION_BUDGETS = Resource("PodDisruptionBudget", "poddisruptionbudgets", "policy")
ACCOUNTS = Resource("ServiceAccount", "serviceaccounts")
# Whoever is known to the server may ask it for their own name.
REVIEWS = Resource("SelfSubjectReview", "selfsubjectreviews", "authentication.k8s.io", namespaced=False)


class Config(Object, frozen=True, gc=False):
    data: Mapping[str, str] = msgspec.field(default_factory=dict)


def config(name: str, **data: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


@pytest.fixture
def admin(cluster: Cluster) -> Access:
    return access.from_kubeconfig(str(cluster.kubeconfig))


@pytest.fixture
async def client(admin: Access) -> AsyncIterator[Client]:
    async with nothing_left_running(), Client(admin) as client:
        yield client


@pytest.fixture
def here(namespace: str) -> Key:
    return Key(namespace, "one")


@pytest.fixture
async def one(client: Client, here: Key) -> Config:
    return await client.create(CONFIG_MAPS, here.namespace, config("one", colour="red"), Config)


async def colour(client: Client, here: Key) -> str | None:
    return (await client.get(CONFIG_MAPS, here, Config)).data.get("colour")


# Reading and writing


async def test_what_was_created_can_be_got(client: Client, here: Key, one: Config) -> None:
    assert await client.get(CONFIG_MAPS, here, Config) == one
    assert (one.key, one.data) == (here, {"colour": "red"})


async def test_a_list_comes_in_pages_of_one_version(client: Client, namespace: str) -> None:
    for number in range(5):
        await client.create(CONFIG_MAPS, namespace, config(f"c{number}"), Object)
    selection = Selection(fields="metadata.name!=kube-root-ca.crt")
    pages = [page async for page in client.pages(CONFIG_MAPS, Object, namespace, selection, size=2)]
    assert [item.metadata.name for page in pages for item in page.items or ()] == [
        "c0",
        "c1",
        "c2",
        "c3",
        "c4",
    ]
    assert len(pages) > 1
    assert len({page.metadata.resource_version for page in pages}) == 1


async def test_a_list_can_be_chosen_by_label_and_reduced_to_metadata(client: Client, namespace: str) -> None:
    for name in ("red", "blue"):
        body = config(name, colour=name) | {"metadata": {"name": name, "labels": {"colour": name}}}
        await client.create(CONFIG_MAPS, namespace, body, Object)
    selection = Selection(labels="colour=red", metadata_only=True)
    (found,) = await client.list_all(CONFIG_MAPS, Config, namespace, selection)
    assert (found.metadata.name, found.data) == ("red", {})


async def test_a_patch_changes_only_what_it_names(client: Client, here: Key, one: Config) -> None:
    changed = await client.patch(CONFIG_MAPS, here, {"data": {"size": "big"}}, Config)
    assert changed.data == {**one.data, "size": "big"}
    wanted = [{"op": "remove", "path": "/data/size"}]
    assert (await client.patch(CONFIG_MAPS, here, wanted, Config, form="json")).data == one.data


async def test_an_apply_takes_back_what_it_no_longer_names(client: Client, here: Key) -> None:
    await client.apply(CONFIG_MAPS, here, config("one", colour="red", size="big"), Config, manager="us")
    left = await client.apply(CONFIG_MAPS, here, config("one", colour="red"), Config, manager="us")
    assert left.data == {"colour": "red"}
    managed = await client.get(CONFIG_MAPS, here, ManagedObject)
    assert [entry.manager for entry in managed.metadata.managed_fields] == ["us"]


async def test_a_rehearsed_apply_leaves_nothing(client: Client, here: Key) -> None:
    await client.apply(CONFIG_MAPS, here, config("one"), Config, manager="us", dry_run=True)
    with pytest.raises(errors.NotFound):
        await client.get(CONFIG_MAPS, here, Object)


async def test_a_replace_needs_the_version_that_is_current(client: Client, here: Key, one: Config) -> None:
    def body(version: str) -> dict[str, object]:
        return config("one", colour="blue") | {"metadata": {"name": "one", "resourceVersion": version}}

    await client.replace(CONFIG_MAPS, here, body(one.metadata.resource_version), Config)
    assert await colour(client, here) == "blue"
    with pytest.raises(errors.Conflict, match=r"replace configmaps .*/one: .*the object has been modified"):
        await client.replace(CONFIG_MAPS, here, body(one.metadata.resource_version), Config)


async def test_a_subresource_is_written_apart(client: Client, namespace: str) -> None:
    body = {"metadata": {"name": "budget"}, "spec": {"minAvailable": 1, "selector": {}}}
    await client.create(DISRUPTION_BUDGETS, namespace, body, Object)
    key, status = Key(namespace, "budget"), {"status": {"expectedPods": 7}, "spec": {"minAvailable": 2}}
    await client.patch(DISRUPTION_BUDGETS, key, status, Object, subresource="status")
    found = await client.get(DISRUPTION_BUDGETS, key, dict)
    assert found["spec"]["minAvailable"] == 1


async def test_a_delete_hits_only_the_object_that_was_seen(client: Client, here: Key, one: Config) -> None:
    with pytest.raises(errors.Conflict, match="the UID in the precondition"):
        await client.delete(CONFIG_MAPS, here, uid="that-of-another")
    await client.patch(CONFIG_MAPS, here, {"data": {"colour": "blue"}}, Config)
    with pytest.raises(errors.Conflict, match="the ResourceVersion in the precondition"):
        await client.delete(CONFIG_MAPS, here, uid=one.metadata.uid, version=one.metadata.resource_version)
    assert await colour(client, here) == "blue"
    await client.delete(CONFIG_MAPS, here, uid=one.metadata.uid)
    with pytest.raises(errors.NotFound):
        await client.get(CONFIG_MAPS, here, Object)


async def test_an_eviction_asks_the_budget(client: Client, cluster: Cluster, here: Key) -> None:
    servers.start(cluster, here.namespace, here.name)
    body = {
        "metadata": {"name": "budget"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": here.name}}},
    }
    budget = await client.create(DISRUPTION_BUDGETS, here.namespace, body, Object)
    with pytest.raises(errors.DisruptionRefused, match=r"evict pods .*/one .*disruption budget"):
        await client.evict(here)
    await client.delete(DISRUPTION_BUDGETS, budget.key)
    pod = await client.get(PODS, here, Object)
    with pytest.raises(errors.Conflict):
        await client.evict(here, uid="that-of-another")
    assert (await client.get(PODS, here, Object)).metadata.deletion_timestamp is None
    await client.evict(here, uid=pod.metadata.uid)
    assert (await client.get(PODS, here, Object)).metadata.deletion_timestamp is not None


# Refusals


async def test_what_is_missing_is_named(client: Client, here: Key) -> None:
    with pytest.raises(errors.NotFound) as refused:
        await client.get(CONFIG_MAPS, here, Object)
    assert str(refused.value) == f'get configmaps {here}: configmaps "one" not found'


async def test_a_taken_name_is_told_from_other_conflicts(client: Client, here: Key, one: Config) -> None:
    assert one.key == here
    with pytest.raises(errors.AlreadyExists, match='configmaps "one" already exists'):
        await client.create(CONFIG_MAPS, here.namespace, config("one"), Object)


async def test_an_apply_against_another_manager_names_it(client: Client, here: Key) -> None:
    await client.apply(CONFIG_MAPS, here, config("one", colour="red"), Config, manager="somebody-else")
    with pytest.raises(errors.OwnershipConflict) as refused:
        await client.apply(CONFIG_MAPS, here, config("one", colour="blue"), Config, manager="us")
    assert refused.value.owners == {".data.colour": "somebody-else"}
    await client.apply(CONFIG_MAPS, here, config("one", colour="blue"), Config, manager="us", force=True)
    assert await colour(client, here) == "blue"


async def test_an_object_that_breaks_a_rule_is_invalid(client: Client, namespace: str) -> None:
    with pytest.raises(errors.Invalid, match=r"create configmaps in .*: .*metadata\.name: Invalid value"):
        await client.create(CONFIG_MAPS, namespace, config("No_Such_Name"), Object)


async def test_a_page_that_is_too_old_is_gone(client: Client, faults: Faults) -> None:
    faults.compact()
    with pytest.raises(errors.Gone):
        async for _ in client.pages(CONFIG_MAPS, Object, selection=_Stale()):
            pass


class _Stale(Selection):
    """Asks as if a list had been begun long ago."""

    def query(self) -> dict[str, str]:
        return {"resourceVersion": "1", "resourceVersionMatch": "Exact"}


async def test_an_answer_that_does_not_fit_names_the_field(client: Client, here: Key, one: Config) -> None:
    class Wrong(Object, frozen=True, gc=False):
        data: Mapping[str, int]

    assert one.key == here
    with pytest.raises(errors.Unreadable, match=r"\$\.data\[\.\.\.\]"):
        await client.get(CONFIG_MAPS, here, Wrong)


# Accounts


async def token(client: Client, namespace: str, account: str) -> str:
    """A new token of an account, which is made if it is not there."""
    with contextlib.suppress(errors.AlreadyExists):
        await client.create(ACCOUNTS, namespace, {"metadata": {"name": account}}, Object)
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 600},
    }
    path = ACCOUNTS.path(Key(namespace, account), "token")
    made = await client.ask(Request("create", "POST", path, "make a token", body), dict)
    return str(made["status"]["token"])


async def name(client: Client) -> str:
    """Whom the server takes us for."""
    review = await client.create(
        REVIEWS, "", {"apiVersion": "authentication.k8s.io/v1", "kind": REVIEWS.kind}, dict
    )
    return str(review["status"]["userInfo"]["username"])


async def revoked(client: Client, admin: Access, namespace: str) -> str:
    """A token that was never shown, so that the server remembers nothing, of an account that is gone."""
    made, shown = [await token(client, namespace, "gone") for _ in range(2)]
    await client.delete(ACCOUNTS, Key(namespace, "gone"))
    # The server hears of the deletion a moment later, and remembers for seconds whom it has let in.
    async with asyncio.timeout(30), Client(access.with_token(admin, shown)) as probe:
        with contextlib.suppress(errors.Unauthorized):
            while await name(probe):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.5)
    return made


async def test_a_missing_permission_is_named(client: Client, admin: Access, here: Key) -> None:
    account = await token(client, here.namespace, "nobody")
    async with Client(access.with_token(admin, account)) as nobody:
        with pytest.raises(errors.Forbidden) as refused:
            await nobody.get(LEASES, here, Object)
        assert await name(nobody) == f"system:serviceaccount:{here.namespace}:nobody"
    said = str(refused.value)
    assert f'User "system:serviceaccount:{here.namespace}:nobody" cannot get resource "leases"' in said
    assert f'in API group "coordination.k8s.io" in the namespace "{here.namespace}"' in said
    assert account not in said


@pytest.fixture
def file(tmp_path: Path) -> TokenFile:
    return TokenFile(tmp_path / "token")


async def test_a_token_of_an_account_that_is_gone_is_refused(
    client: Client, admin: Access, namespace: str
) -> None:
    async with Client(access.with_token(admin, await revoked(client, admin, namespace))) as gone:
        with pytest.raises(errors.Unauthorized):
            await name(gone)


@pytest.mark.parametrize("was", ["revoked", "garbage"])
async def test_a_refused_token_is_read_again(
    client: Client, admin: Access, namespace: str, file: TokenFile, was: str
) -> None:
    file.path.write_text(await revoked(client, admin, namespace) if was == "revoked" else was)
    await file.identity()
    async with Client(replace(access.with_token(admin, ""), credentials=file)) as rotated:
        file.path.write_text(await token(client, namespace, "us"))
        assert await name(rotated) == f"system:serviceaccount:{namespace}:us"


async def test_a_client_recovers_when_the_token_is_repaired(
    client: Client, admin: Access, namespace: str, file: TokenFile
) -> None:
    file.path.write_text("garbage")
    async with Client(replace(access.with_token(admin, ""), credentials=file)) as rotated:
        with pytest.raises(errors.Unauthorized):
            await name(rotated)
        file.path.write_text(await token(client, namespace, "us"))
        assert await name(rotated) == f"system:serviceaccount:{namespace}:us"


# Certificates


async def test_a_rotated_authority_is_picked_up_without_a_restart(
    admin: Access, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "FILES_AGE", 0.0)
    assert admin.tls is not None
    assert isinstance(admin.tls.authority, bytes)
    bundle, strange = tmp_path / "ca.crt", Authority("strange").certificate
    bundle.write_bytes(strange)
    async with Client(replace(admin, tls=replace(admin.tls, authority=bundle))) as client:
        with pytest.raises(errors.Unreachable, match="certificate verify failed"):
            await name(client)
        bundle.write_bytes(strange + admin.tls.authority)
        assert await name(client) == "kubernetes-admin"
        bundle.write_bytes(strange)
        with pytest.raises(errors.Unreachable, match="certificate verify failed"):
            await name(client)


async def test_a_rotated_client_certificate_is_shown_by_new_connections(
    admin: Access, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "FILES_AGE", 0.0)
    assert admin.tls is not None
    assert isinstance(admin.tls.certificate, bytes)
    assert isinstance(admin.tls.key, bytes)
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    stranger = Authority("strange").issue("stranger")
    certificate.write_bytes(stranger.certificate)
    key.write_bytes(stranger.key)
    async with Client(replace(admin, tls=replace(admin.tls, certificate=certificate, key=key))) as client:
        with pytest.raises(errors.Unauthorized):
            await name(client)
        certificate.write_bytes(admin.tls.certificate)
        key.write_bytes(admin.tls.key)
        assert await name(client) == "kubernetes-admin"
