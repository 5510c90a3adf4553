"""What is changed in a running pod and on its volume without a restart, as `decide/` has decided."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from valkey_operator.api.directives import memory_bytes
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.decide import resize, volume
from valkey_operator.kube import errors
from valkey_operator.kube.objects import Key
from valkey_operator.operator.nudges import Nudges, Starts
from valkey_operator.operator.seen import Claim, Container, Custom, Pod, Resources
from valkey_operator.operator.world import World
from valkey_operator.render import marks
from valkey_operator.render.pod import SERVER, claim_name
from valkey_operator.valkey import config_file

NO_SUBRESOURCE = "could not find the requested resource"


class PodChanges:
    """For all nodes; remembers what the API server has refused, so that it is not asked for the same again."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._nudges, self._starts = Nudges(), Starts()
        # By node and by what was asked of it: the wish, and why not.
        self._refused: dict[Key, dict[str, tuple[str, str]]] = {}

    def forget(self, node: Key) -> None:
        self._refused.pop(node, None)
        self._starts.forget(node)

    def start_is_looked_at(self, node: Key) -> float | None:
        """In how many seconds; None when its pod is not waited for."""
        return self._starts.pause(node)

    async def mark(self, node: Custom, pod: Pod, seen: contract.Observation | None, mounted: str) -> None:
        """Labels and annotations as wanted; a changed one also makes the kubelet look for new files at once."""
        metadata = node.spec["podTemplate"].get("metadata", {})
        # Who takes this label off lets the pod go.
        labels = {name: value for name, value in metadata.get("labels", {}).items() if name != marks.GUARDED}
        annotations = dict(metadata.get("annotations", {}))
        is_unseen = seen.configuration.mounted != mounted if seen is not None else pod.is_ready
        if not is_unseen:
            self._nudges.arrived(pod, marks.INPUTS)
        elif value := self._nudges.value(pod, marks.INPUTS, mounted):
            annotations[marks.INPUTS] = value
        if late := self._starts.value(node.key, pod):
            annotations[marks.LATE] = late
        changed = {
            "labels": _missing(labels, pod.metadata.labels),
            "annotations": _missing(annotations, pod.metadata.annotations),
        }
        if any(changed.values()):
            body = {"metadata": {"uid": pod.metadata.uid, **changed}}
            await self._world.writer.patch(self._world.caches.pods, pod, body, form="merge")

    def most_memory(self, node: Custom, pod: Pod | None) -> int | None:
        applied = _applied(pod) if pod is not None else None
        return None if applied is None else resize.most_memory(_wanted(node), _maxmemory(node), applied)

    async def fit(self, node: Custom, pod: Pod, seen: contract.Observation | None) -> resize.Plan:
        index = _index(pod.spec.containers)
        if index is None:
            return resize.Plan()
        plan = self._plan_resize(node, pod, seen)
        if not plan.resize:
            return plan
        wanted = _wanted(node)
        path = f"/spec/containers/{index}"
        steps: list[dict[str, Any]] = [
            {"op": "test", "path": "/metadata/uid", "value": pod.metadata.uid},
            {"op": "test", "path": f"{path}/name", "value": SERVER},
            {"op": "add", "path": f"{path}/resources", "value": wanted},
        ]
        try:
            pods = self._world.caches.pods
            pod = await self._world.writer.patch(pods, pod, steps, form="json", subresource="resize")
        except (errors.NotFound, errors.Forbidden, errors.Invalid) as refusal:
            if isinstance(refusal, errors.NotFound) and NO_SUBRESOURCE not in str(refusal):
                raise  # the pod is gone
            self._note(node, "resize", f"{pod.metadata.uid} {wanted}", str(refusal))
        return self._plan_resize(node, pod, seen)

    def _plan_resize(self, node: Custom, pod: Pod, seen: contract.Observation | None) -> resize.Plan:
        wanted = _wanted(node)
        server = _container(pod.spec.containers)
        memory = seen.server.memory if seen is not None and seen.HasField("server") else None
        found = resize.SeenPod(
            asked=_resources(server.resources if server else Resources()),
            applied=_applied(pod),
            obstacle=_obstacle(pod),
            refused=self._why_refused(node, "resize", f"{pod.metadata.uid} {wanted}"),
            memory=resize.Memory(memory.used_bytes, memory.max_bytes) if memory is not None else None,
        )
        return resize.plan(wanted, _maxmemory(node), found)

    def plan_volume(self, node: Custom, pod: Pod | None) -> volume.Plan:
        wanted = str(node.spec["persistence"]["size"])
        claim = self._claim(node)
        since = _time(pod.status.start_time) if pod is not None else None
        found = None if claim is None else _seen_claim(claim, self._why_refused(node, "volume", wanted))
        return volume.plan(wanted, found, since, datetime.now(UTC))

    def note_refused_growth(self, node: Custom, size: str, refusal: errors.ApiError) -> bool:
        """True when it was about the size of a volume that is there."""
        claim = self._claim(node)
        if claim is None or claim.spec.resources.requests.get("storage") == size:
            return False
        self._note(node, "volume", size, str(refusal))
        return True

    def _claim(self, node: Custom) -> Claim | None:
        key = Key(node.metadata.namespace, claim_name(node.metadata.name))
        return self._world.caches.claims.store.get(key)

    def _note(self, node: Custom, what: str, wish: str, why: str) -> None:
        self._refused.setdefault(node.key, {})[what] = (wish, why)

    def _why_refused(self, node: Custom, what: str, wish: str) -> str:
        known = self._refused.get(node.key, {}).get(what)
        return known[1] if known is not None and known[0] == wish else ""


def _missing(wanted: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in wanted.items() if found.get(name) != value}


def _wanted(node: Custom) -> dict[str, Any]:
    containers = node.spec["podTemplate"]["spec"].get("containers", ())
    found: dict[str, Any] = next((each for each in containers if each["name"] == SERVER), {})
    return dict(found.get("resources") or {})


def _maxmemory(node: Custom) -> int:
    text = node.spec.get("valkeyConfig", {}).get("files", {}).get("valkey.conf", "")
    return memory_bytes(config_file.parse(text).get("maxmemory", "0")) or 0


def _index(containers: tuple[Container, ...]) -> int | None:
    return next((number for number, each in enumerate(containers) if each.name == SERVER), None)


def _container(containers: tuple[Container, ...]) -> Container | None:
    index = _index(containers)
    return None if index is None else containers[index]


def _applied(pod: Pod) -> dict[str, Any]:
    """What the kubelet has given it; before it says so, what it was asked for."""
    for containers in (pod.status.container_statuses, pod.spec.containers):
        found = _container(containers)
        if found is not None and found.resources != Resources():
            return _resources(found.resources)
    return {}


def _resources(found: Resources) -> dict[str, Any]:
    return dict(msgspec.to_builtins(found))


def _obstacle(pod: Pod) -> str:
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending" and condition.status == "True":
            return condition.message or condition.reason
    return ""


def _seen_claim(claim: Claim, refused: str) -> volume.SeenClaim:
    waiting = (
        each for each in claim.status.conditions
        if each.type == "FileSystemResizePending" and each.status == "True"
    )  # fmt: skip
    since = next((_time(each.last_transition_time or "") for each in waiting), None)
    asked = claim.spec.resources.requests.get("storage", "")
    return volume.SeenClaim(asked, claim.status.capacity.get("storage", ""), refused, since)


def _time(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
