"""Bare servers as pods without an operator and without volumes: what dies in them is gone."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial

from devcluster.cluster import Cluster
from tests.chaos.bare import answers, order, until
from tests.chaos.wire import Address, NotSent, Unanswered, as_text
from tests.chaos.workload import info_field

IMAGE = "valkey-operator/valkey:9.1"
USER = 10001
PORT = 6379
LABEL = "bare-valkey"
PLACE = ("--dir", "/data", "--port", str(PORT), "--cluster-announce-ip", "$(POD_IP)")


def manifest(group: str, number: int, options: Sequence[str]) -> str:
    """One document for each pod; JSON is YAML too."""
    return "\n---\n".join(json.dumps(_pod(group, f"{group}-{index}", options)) for index in range(number))


def _pod(group: str, name: str, options: Sequence[str]) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {LABEL: group}},
        "spec": {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER,
                "runAsGroup": USER,
                "fsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [_container(options)],
            "volumes": [{"name": "data", "emptyDir": {}}],
        },
    }


def _container(options: Sequence[str]) -> dict[str, object]:
    return {
        "name": "valkey",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["valkey-server", *PLACE, *options],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "ports": [{"containerPort": PORT}],
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }


def pod_addresses(listed: str) -> list[Address]:
    """From `kubectl get pods -o json`, in the order of the names; pods without an IP are left out."""
    pods = sorted(json.loads(listed)["items"], key=lambda pod: str(pod["metadata"]["name"]))
    hosts = [pod.get("status", {}).get("podIP") for pod in pods]
    return [Address(str(host), PORT) for host in hosts if host]


class Pods:
    def __init__(self, addresses: Sequence[Address]) -> None:
        self.addresses = addresses

    async def restart(self, address: Address) -> None:
        """The container ends and the kubelet starts it anew: same pod, same IP, another process."""
        before = await _process(address)
        with suppress(Unanswered, NotSent):
            await order(address, "SHUTDOWN", "NOSAVE", "NOW")

        async def is_another_process() -> bool:
            return await _process(address) != before

        await until(f"the container at {address} is back", is_another_process, within=60.0)


async def _process(address: Address) -> str:
    return info_field(as_text(await order(address, "INFO", "server")), "run_id")


@asynccontextmanager
async def pods(cluster: Cluster, number: int, options: Sequence[str]) -> AsyncIterator[Pods]:
    """Pods that are gone afterwards, whatever happened to them."""
    group = f"{LABEL}-{secrets.token_hex(3)}"
    selection = ("pods", "--selector", f"{LABEL}={group}")

    async def kubectl(*words: str) -> str:
        return await asyncio.to_thread(cluster.kubectl, *words)

    async def have_addresses() -> bool:
        return len(pod_addresses(await kubectl("get", *selection, "--output", "json"))) == number

    try:
        await asyncio.to_thread(cluster.kubectl.apply, manifest(group, number, options))
        await until(f"the pods of {group} have addresses", have_addresses, within=60.0)
        addresses = pod_addresses(await kubectl("get", *selection, "--output", "json"))
        for address in addresses:
            await until(f"the pod at {address} answers", partial(answers, address), within=60.0)
        yield Pods(addresses)
    finally:
        await kubectl("delete", *selection, "--grace-period=0", "--force", "--wait=false")
