"""Fixtures for pytest: a cluster for the whole session, and faults that heal after each test."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from devcluster import image_build
from devcluster.cluster import Cluster, EmbeddedCluster
from devcluster.embedded import Wish
from devcluster.faults import Faults
from devcluster.places import beside
from devcluster.progress import Progress
from devcluster.provider import checkout, choose

FIRST = "gw0"


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """This checkout's cluster with all images loaded; one that existed before is never ended.

    Where tests run side by side (pytest-xdist), every process but the first has a cluster of its own.
    """
    process = os.environ.get("PYTEST_XDIST_WORKER", FIRST)
    if process != FIRST:
        os.environ["DEVCLUSTER_NAME"] = beside(choose().name, process)  # also for commands that tests run
        choose().down(Progress())  # an interrupted run may have left it
    chosen = choose()
    existed = chosen.exists
    progress = Progress()
    try:
        chosen.up(Wish(kubernetes=os.environ.get("KUBERNETES") or None), progress)
        recipes = list(image_build.recipes(checkout() / "images").values())
        chosen.load(image_build.build(recipes, progress))
        yield chosen
    finally:
        if not existed:
            chosen.down(Progress())  # after an interrupt, what the first one wrote to is closed


@pytest.fixture
def embedded_cluster(cluster: Cluster) -> EmbeddedCluster:
    """The cluster where a test needs what only the embedded one has."""
    if not isinstance(cluster, EmbeddedCluster):
        pytest.skip(f"needs the embedded cluster, this is {cluster.provider}")
    return cluster


@pytest.fixture
def faults(embedded_cluster: EmbeddedCluster) -> Iterator[Faults]:
    """Faults to order; whatever a test leaves broken is healed after it."""
    yield embedded_cluster.faults
    embedded_cluster.faults.heal_all()


@contextmanager
def own_namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace in which pods can be made, gone afterwards."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    cluster.kubectl("create", "namespace", name)
    # Without it no pod can be made. It comes a moment later; much later when a test before this one has silently cut
    # the connection of the controller manager to the API server.
    wait = ("wait", "--for=create", "serviceaccount/default", "--timeout=180s")
    cluster.kubectl(*wait, "--namespace", name, timeout=200)
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace of the test's own."""
    with own_namespace(cluster) as name:
        yield name
