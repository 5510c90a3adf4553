"""What a server does while others are away: the operator, the API server, DNS, its own sidecar."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from devcluster.faults import Faults
from devcluster.problem import Problem
from tests.e2e.conftest import PLACE, Place, by_name
from tests.e2e.test_one_node import POD, SPEC
from valkey_operator.render.pod import PROBE_PORT

# A minute in the long run (`make chaos`).
AWAY = float(os.environ.get("AWAY", "15"))
# Writes ten times a second until it is told to stop, and notes every write that was not acknowledged. On one
# connection: one that breaks shows as well.
WRITER = """
: >/data/stop-writing
n=0
while [ ! -s /data/stop-writing ] && [ $n -lt 3000 ]; do
  n=$((n+1)); echo "SET w$n $n"; sleep 0.1
done | valkey-cli >/data/answers 2>&1
"""


def ready_since(place: Place) -> str:
    conditions = place.get("pod", POD)["status"]["conditions"]
    # Its containers: the pod as a whole Kubernetes calls not ready when it has not heard of its machine for a minute.
    (ready,) = (each for each in conditions if each["type"] == "ContainersReady")
    assert ready["status"] == "True"
    return str(ready["lastTransitionTime"])


@contextmanager
def a_client_writes_all_the_time(place: Place, stays_ready: bool | None = True) -> Iterator[None]:
    """Inside the pod, so that it needs nobody; every write must be acknowledged, and the pod stay ready, or not; or
    either (None)."""
    place.apply("Valkey", "one", SPEC)
    place.is_ready("one")
    since = ready_since(place)
    in_server(place, f"({WRITER}) >/dev/null 2>&1 &")
    before = written(place)
    yield
    place.eventually(lambda: written(place) > before + 10)
    in_server(place, "echo yes >/data/stop-writing")
    answers = in_server(place, "while read -r line; do echo $line; done </data/answers").split()
    assert set(answers) == {"OK"}
    assert stays_ready is None or (ready_since(place) == since) is stays_ready


def in_server(place: Place, script: str) -> str:
    """By the shell alone: the image has hardly anything else."""
    return place.kubectl("exec", POD, "--container=valkey", "--", "/bin/sh", "-c", script)


def written(place: Place) -> int:
    return int(place.valkey(POD, "DBSIZE"))


def restarts(place: Place) -> dict[str, int]:
    containers = by_name(place.get("pod", POD)["status"]["containerStatuses"])
    return {name: each["restartCount"] for name, each in containers.items()}


def test_without_the_api_server(place: Place, faults: Faults) -> None:
    place.api_restarts = True  # when it is back, it does not know at once who may do what
    with a_client_writes_all_the_time(place), faults.stop("api"):
        time.sleep(AWAY)


def test_without_the_operator(place: Place) -> None:
    operator = Place(place.cluster, PLACE)
    with a_client_writes_all_the_time(place):
        operator.kubectl("scale", "deployment/valkey-operator", "--replicas=0")
        operator.kubectl("wait", "pods", "--all", "--for=delete", "--timeout=60s")
        time.sleep(AWAY / 3)
        operator.kubectl("scale", "deployment/valkey-operator", "--replicas=2")
        operator.kubectl("rollout", "status", "deployment/valkey-operator", "--timeout=60s")
        # It hears of the node again.
        patch = json.dumps({"spec": {"config": {"maxmemory-policy": "allkeys-lru"}}})
        place.kubectl("patch", "valkey", "one", "--type=merge", "--patch", patch)
        place.eventually(lambda: "allkeys-lru" in place.valkey(POD, "CONFIG", "GET", "maxmemory-policy"), 60)


def test_without_dns(place: Place, faults: Faults) -> None:
    with a_client_writes_all_the_time(place), faults.stop("dns"):
        time.sleep(AWAY)
        # The operator is heard of and speaks all the same: both keep the address that worked.
        place.kubectl(
            "patch", "valkey", "one", "--type=merge", '--patch={"spec":{"config":{"timeout":"77"}}}'
        )
        place.eventually(lambda: "77" in place.valkey(POD, "CONFIG", "GET", "timeout"))


def test_without_its_sidecar_for_a_while(place: Place, faults: Faults) -> None:
    """A pod without a container of its own is not ready to Kubernetes; open connections know nothing of it."""
    with a_client_writes_all_the_time(place, stays_ready=False):
        faults.kill_container(f"{place.namespace}/{POD}", "sidecar")
        place.eventually(lambda: restarts(place)["sidecar"] == 1)
        place.eventually(
            lambda: (
                "True"
                in place.kubectl("get", "valkeynode", "one-0", "--output=jsonpath={.status.ready}").title()
            )
        )
    assert restarts(place) == {"sidecar": 1, "valkey": 0}


def test_its_sidecar_killed_ten_times_disturbs_no_client(place: Place, faults: Faults) -> None:
    """The process and not its container. Usually it is back before the kubelet has missed it three times; on a busy
    machine not always, and clients do not care."""
    with a_client_writes_all_the_time(place, stays_ready=None):
        before = server_run(place)
        for _ in range(10):
            faults.kill(f"{place.namespace}/{POD}", "sidecar")
            place.eventually(lambda: its_sidecar_answers(place))
        assert server_run(place) == before
    assert restarts(place) == {"sidecar": 0, "valkey": 0}


def server_run(place: Place) -> set[str]:
    """What is another one as soon as the server was started again."""
    lines = place.valkey(POD, "INFO", "server").splitlines()
    return {line.strip() for line in lines if line.startswith(("process_id:", "run_id:"))}


def its_sidecar_answers(place: Place) -> bool:
    ask = f"import urllib.request as u; u.urlopen('http://127.0.0.1:{PROBE_PORT}/ready')"
    try:
        place.in_sidecar(POD, "python3.13", "-c", ask)
    except Problem:
        return False
    return True
