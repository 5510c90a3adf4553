"""The CRDs on the session's cluster, and a way to try manifests without leaving them there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster.api import Api, ApiError
from devcluster.cluster import Cluster
from devcluster.provider import checkout
from valkey_operator.api.kinds import GROUP, KINDS, VERSION

PLURALS = {kind.name: kind.plural_name for kind in KINDS}
Manifest = dict[str, Any]
Try = Callable[[Manifest], str | None]


@pytest.fixture(scope="session")
def crds(cluster: Cluster) -> Cluster:
    """The cluster with our CRDs established."""
    folder = checkout() / "deploy" / "crds"
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", folder)
    names = [f"crd/{kind.plural_name}.{GROUP}" for kind in KINDS]
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names)
    return cluster


@pytest.fixture(scope="session")
def api(crds: Cluster) -> Api:
    return Api(crds.kubeconfig)


@pytest.fixture(scope="session")
def refusal(api: Api) -> Try:
    """What the API server says against a manifest, or None when it takes it; nothing is stored."""

    def attempt(manifest: Manifest) -> str | None:
        path = f"/apis/{GROUP}/{VERSION}/namespaces/default/{PLURALS[manifest['kind']]}"
        try:
            api.post(f"{path}?dryRun=All&fieldValidation=Strict", manifest)
        except ApiError as error:
            return str(error)
        return None

    return attempt


def manifest(kind: str, spec: Manifest, name: str = "x") -> Manifest:
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, "metadata": {"name": name}, "spec": spec}


def samples() -> list[Path]:
    return sorted((checkout() / "samples").glob("*.yaml"))


@pytest.fixture
def no_operator(cluster: Cluster) -> Iterator[None]:
    """None that was installed by hand looks after the objects of this test; two would not agree on a root."""
    place = "--namespace=valkey-system"
    found = cluster.kubectl("get", "deployments", place, "--output=name", "--ignore-not-found").split()
    for name in found:
        cluster.kubectl("scale", place, name, "--replicas=0")
    if found:
        cluster.kubectl("wait", place, "pods", "--all", "--for=delete", "--timeout=60s")
    yield
    for name in found:
        cluster.kubectl("scale", place, name, "--replicas=2")
