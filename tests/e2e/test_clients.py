"""Clients that others wrote, in pods of their own: they find a cluster by its Service's name and follow its changes."""

from __future__ import annotations

import base64
import io
import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from devcluster import python_site
from devcluster.command import CommandFailed
from devcluster.provider import checkout
from tests.e2e.conftest import Place
from tests.e2e.test_one_node import SPEC

SECONDS = 8
WITH_PYTHON, PYTHON = "valkey-operator/operator:dev", "3.13"
LIBRARIES = {"valkey": "6.2.0", "valkey-glide": "2.5.3"}
# In that image there is nothing to unpack with but Python.
UNPACK = (
    "import base64, io, sys, tarfile; data = io.BytesIO(base64.b64decode(sys.stdin.read())); "
    "tarfile.open(fileobj=data).extractall('/client', filter='data')"
)


@pytest.fixture
def grid(place: Place) -> Place:
    place.apply("ValkeyCluster", "grid", {**SPEC, "shards": 3, "replicas": 2})
    place.kubectl("wait", "--for=jsonpath={.status.state}=Ready", "valkeycluster/grid", "--timeout=120s")
    return place


def packed(library: str, folder: Path) -> str:
    """The library with all it needs, for the Python of the pod, and the program that uses it."""
    python_site.install(checkout(), PYTHON, folder, f"{library}=={LIBRARIES[library]}")
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz", compresslevel=1) as archive:
        archive.add(folder, ".")
        archive.add(Path(__file__).parent / "in_pod_client.py", "client.py")
    return base64.b64encode(content.getvalue()).decode()


def start_client(place: Place, image: str) -> None:
    """In a pod of its own, which is none of the cluster's."""
    container = {
        "name": "client",
        "image": image,
        "imagePullPolicy": "Never",
        "command": ["sleep", "600"],
        "env": [{"name": "PYTHONPATH", "value": "/client"}],
        "volumeMounts": [{"name": "client", "mountPath": "/client"}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    spec: dict[str, Any] = {
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": [{"name": "client", "emptyDir": {}}],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 10001,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "client"}, "spec": spec}
    place.cluster.kubectl("--namespace", place.namespace, "create", "-f", "-", stdin=json.dumps(pod))
    place.kubectl("wait", "--for=condition=Ready", "pod/client", "--timeout=60s")


def primary_of(place: Place, shard: int) -> str:
    return str(place.get("valkeycluster", "grid")["status"]["shards"][shard]["primary"])


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_client_goes_on_through_a_switchover(grid: Place, library: str, tmp_path: Path) -> None:
    start_client(grid, WITH_PYTHON)
    inside = ("--namespace", grid.namespace, "exec", "--stdin", "client", "--", f"/usr/bin/python{PYTHON}")
    grid.cluster.kubectl(*inside, "-c", UNPACK, stdin=packed(library, tmp_path))
    words = grid.command("exec", "client", "--", f"/usr/bin/python{PYTHON}", "/client/client.py")
    with subprocess.Popen(
        [*words, library, "grid", str(SECONDS)], stdout=subprocess.PIPE, text=True
    ) as client:
        before = primary_of(grid, 0)
        other = "grid-0-1" if before == "grid-0-0" else "grid-0-0"
        grid.kubectl("annotate", "valkeycluster", "grid", f"valkey.io/switchover={other}/by-test")
        grid.eventually(lambda: primary_of(grid, 0) == other)
        said, _ = client.communicate(timeout=120)
    found = json.loads(said)
    print(f"\n{found['written']} writes of {library}, {len(found['errors'])} errors: {found['errors'][:3]}")
    assert found["written"] > 100
    assert found["wrong"] == []
    assert found["errors"] == []


def test_valkey_cli_follows_redirections(grid: Place) -> None:
    start_client(grid, str(SPEC["image"]))
    command = ("exec", "client", "--", "valkey-cli", "-c", "-h", "grid")

    def is_led_there() -> bool:
        try:
            return grid.kubectl(*command, "PING").strip() == "PONG"
        except CommandFailed as failed:
            if "Connection refused" not in str(failed):
                raise
            return False  # a network follows what is Ready within a second or two

    grid.eventually(is_led_there, 10)
    for number in range(12):
        assert grid.kubectl(*command, "SET", f"key:{number}", str(number)).strip() == "OK"
        assert grid.kubectl(*command, "GET", f"key:{number}").strip() == str(number)
