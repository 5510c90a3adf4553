"""The objects the runtime is measured with: Pods as large as real ones that run nowhere, and ConfigMaps."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import yaml

from valkey_operator.kube.client import Client, Request
from valkey_operator.kube.objects import Key, Object
from valkey_operator.kube.resources import CONFIG_MAPS, NAMESPACES, PODS, Resource

AT_ONCE = 24
CONTAINERS = ("valkey", "sidecar")
LABELS = {"bench": "yes", "app.kubernetes.io/name": "valkey", "app.kubernetes.io/managed-by": "bench"}
SERVICE_ACCOUNTS = Resource("ServiceAccount", "serviceaccounts")
ROLE_BINDINGS = Resource("RoleBinding", "rolebindings", "rbac.authorization.k8s.io")


def pod(number: int) -> dict[str, Any]:
    labels = {**LABELS, "valkey.io/cluster": f"c{number // 6}", "valkey.io/shard": str(number % 3)}
    annotations = {f"bench.example/note-{each}": "x" * 40 for each in range(2)}
    containers = [container(name, each) for each, name in enumerate(CONTAINERS)]
    volumes: list[dict[str, Any]] = [{"name": f"volume-{each}", "emptyDir": {}} for each in range(2)]
    return {
        "metadata": {"name": f"pod-{number}", "labels": labels, "annotations": annotations},
        # A scheduler that nobody runs: the pod stays as it is, and no node hears of it.
        "spec": {"schedulerName": "nobody", "containers": containers, "volumes": volumes},
    }


def container(name: str, number: int) -> dict[str, Any]:
    return {
        "name": name,
        "image": f"valkey/{name}:9.1.{number}",
        "command": [f"/usr/local/bin/{name}", "--config", f"/etc/{name}/{name}.conf"],
        "env": [{"name": f"SETTING_{each}", "value": f"value-{each}-{name}"} for each in range(2)],
        "ports": [{"name": name, "containerPort": 6379 + number}],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
        "volumeMounts": [
            {"name": f"volume-{each}", "mountPath": f"/mnt/{name}/volume-{each}"} for each in range(2)
        ],
    }


def pod_status(number: int) -> dict[str, Any]:
    """As a kubelet would report a pod that runs well."""
    kinds = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    since = "2026-01-01T00:00:00Z"
    containers = [
        {
            "name": name,
            "image": f"valkey/{name}:9.1.{each}",
            "imageID": f"valkey/{name}@sha256:{'0' * 64}",
            "containerID": f"containerd://{number:064x}",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": since}},
        }
        for each, name in enumerate(CONTAINERS)
    ]
    address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    return {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": since,
        "conditions": [{"type": kind, "status": "True", "lastTransitionTime": since} for kind in kinds],
        "containerStatuses": containers,
    }


async def make_namespace(client: Client, name: str) -> None:
    await client.create(NAMESPACES, "", {"metadata": {"name": name}}, Object)


async def make_pods(client: Client, namespace: str, count: int) -> None:
    # Pods are refused until the controller manager has made the account they run as.
    async with asyncio.timeout(30):
        while not await client.list_all(SERVICE_ACCOUNTS, Object, namespace):  # noqa: ASYNC110 - once, at the start
            await asyncio.sleep(0.1)

    async def make(number: int) -> None:
        await client.create(PODS, namespace, pod(number), Object)
        status = {"status": pod_status(number)}
        await client.patch(PODS, Key(namespace, f"pod-{number}"), status, Object, subresource="status")

    await each_of(count, make)


async def make_maps(client: Client, namespace: str, count: int) -> None:
    async def make(number: int) -> None:
        body = {"metadata": {"name": f"map-{number}", "labels": LABELS}, "data": {"text": "x" * 500}}
        await client.create(CONFIG_MAPS, namespace, body, Object)

    await each_of(count, make)


async def each_of(count: int, make: Callable[[int], Awaitable[None]]) -> None:
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            await make(number)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work())


async def delete_all(client: Client, resource: Resource, namespace: str) -> None:
    path = resource.collection(namespace)
    options = {"gracePeriodSeconds": "0", "labelSelector": "bench=yes"}
    request = Request("deletecollection", "DELETE", path, f"delete all {resource}", query=options)
    await client.ask(request, msgspec.Raw)


async def make_user(client: Client, namespace: str, name: str, kubeconfig: Path, target: Path) -> None:
    """An account of its own with a kubeconfig of its own, so that the audit log tells who did what."""
    await client.create(SERVICE_ACCOUNTS, namespace, {"metadata": {"name": name}}, Object)
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": namespace}]
    binding = {"metadata": {"name": name}, "roleRef": role, "subjects": subjects}
    await client.create(ROLE_BINDINGS, namespace, binding, Object)
    path = SERVICE_ACCOUNTS.path(Key(namespace, name), "token")
    wish = {"spec": {"expirationSeconds": 7200}}
    answer = await client.ask(Request("create", "POST", path, "make a token", wish), dict[str, Any])
    write_kubeconfig(kubeconfig, target, name, answer["status"]["token"])


def write_kubeconfig(known: Path, target: Path, user: str, token: str) -> None:
    shown = yaml.safe_load(known.read_text())
    shown["users"] = [{"name": user, "user": {"token": token}}]
    for context in shown["contexts"]:
        context["context"]["user"] = user
    target.touch(mode=0o600)
    target.write_text(json.dumps(shown))
