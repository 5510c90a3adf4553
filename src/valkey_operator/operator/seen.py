"""The objects that controllers look at, as small as they need them."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from valkey_operator.api.group import GROUP, VERSION
from valkey_operator.kube.objects import NONE, Fields, ManagedObject, Object, OwnerReference, Vocabulary
from valkey_operator.kube.resources import Resource
from valkey_operator.render.marks import SIDECAR_BEFORE
from valkey_operator.render.pod import SERVER, SIDECAR

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
CONFIG_ERROR = "FATAL CONFIG FILE ERROR"
LOG_PREFIX = re.compile(r"^\d+:[XCSM] .{20,30} [.\-*#] ")


class Custom(ManagedObject, frozen=True, gc=False):
    """A custom resource, whole: every field may matter. What many of them say is in memory once."""

    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        _share_texts(self.spec)
        _share_texts(self.status)


def _share_texts(tree: dict[str, Any] | list[Any]) -> None:
    """Of a tree that is fresh from the decoder, and nobody else's yet."""
    for place, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        if type(value) is str:
            tree[place] = sys.intern(value)  # type: ignore[index]
        elif isinstance(value, dict | list):
            _share_texts(value)


class PodCondition(Vocabulary, frozen=True, gc=False):
    type: str
    status: str
    reason: str = ""
    message: str = ""


class Resources(Fields, frozen=True, gc=False):
    limits: Mapping[str, str] = NONE
    requests: Mapping[str, str] = NONE


class Container(Fields, frozen=True, gc=False):
    name: str
    image: str = ""
    resources: Resources = Resources()


class Waiting(Vocabulary, frozen=True, gc=False):
    reason: str = ""
    message: str = ""


class Terminated(Vocabulary, frozen=True, gc=False):
    reason: str = ""
    message: str = ""


class ContainerState(Fields, frozen=True, gc=False):
    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(Container, frozen=True, gc=False):
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    container_id: str = msgspec.field(default="", name="containerID")


class PodSpec(Fields, frozen=True, gc=False):
    node_name: str = ""
    containers: tuple[Container, ...] = ()


class PodStatus(Fields, frozen=True, gc=False):
    phase: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    start_time: str = ""
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Taint(Vocabulary, frozen=True, gc=False):
    key: str


class MachineSpec(Fields, frozen=True, gc=False):
    taints: tuple[Taint, ...] = ()


class Machine(Object, frozen=True, gc=False):
    """A Node of Kubernetes."""

    spec: MachineSpec = MachineSpec()

    @property
    def is_out_of_service(self) -> bool:
        """A person, or who fences machines, has said that nothing runs there any more."""
        return any(taint.key == OUT_OF_SERVICE for taint in self.spec.taints)


class Pod(Object, frozen=True, gc=False):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def has_ended_for_good(self) -> bool:
        """Its kubelet says that the server has ended, and starts none again."""
        states = [each.state for each in self.status.container_statuses if each.name == SERVER]
        return bool(self.metadata.deletion_timestamp and states) and all(
            each.terminated is not None for each in states
        )

    @property
    def is_ready(self) -> bool:
        return any(each.type == "Ready" and each.status == "True" for each in self.status.conditions)

    @property
    def fault(self) -> str:
        """Why a container does not come up, in a sentence; empty while nothing is known to be wrong."""
        for each in self.status.container_statuses:
            waiting = each.state.waiting
            if waiting is not None and waiting.reason not in ("", "PodInitializing", "ContainerCreating"):
                return (
                    f"container {each.name} waits: {waiting.reason} {waiting.message}{_because(each)}".strip()
                )
        return ""

    @property
    def unplaced(self) -> str:
        """Why no machine takes it; empty while nobody says so."""
        said = (each for each in self.status.conditions if each.type == "PodScheduled")
        return next((f"no machine takes it: {each.message}" for each in said if each.status == "False"), "")

    @property
    def sidecar_image(self) -> str:
        return next((each.image for each in self.spec.containers if each.name == SIDECAR), "")

    @property
    def sidecar(self) -> ContainerStatus | None:
        return next((each for each in self.status.container_statuses if each.name == SIDECAR), None)

    @property
    def sidecar_is_changing(self) -> bool:
        """It has another image, and the container with the image before still runs, or none does."""
        before, now = self.metadata.annotations.get(SIDECAR_BEFORE), self.sidecar
        if not before or now is None:
            return False
        return now.container_id == before or now.state.waiting is not None or now.state.terminated is not None

    @property
    def last_words(self) -> str:
        """Of the server, before the last end of its container: the end of its log."""
        ended = (each.last_state.terminated for each in self.status.container_statuses if each.name == SERVER)
        return next((_last_words(each.message) for each in ended if each is not None), "")


def sidecar_image(node: Custom) -> str:
    """That a new pod of this node would have."""
    containers = node.spec["podTemplate"]["spec"].get("containers", ())
    return next((str(each["image"]) for each in containers if each["name"] == SIDECAR), "")


def _last_words(log: str) -> str:
    """A wrong configuration is told in several lines, everything else in one, after process, role and time."""
    *_, wrong = log.rpartition(CONFIG_ERROR)
    if wrong != log:
        return " ".join(f"{CONFIG_ERROR}{wrong}".split())
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return LOG_PREFIX.sub("", lines[-1]) if lines else ""


def _because(status: ContainerStatus) -> str:
    """What ended it, where that is more than an error."""
    ended = status.last_state.terminated
    return f" (last time: {ended.reason})" if ended is not None and ended.reason not in ("", "Error") else ""


class Requested(Fields, frozen=True, gc=False):
    requests: Mapping[str, str] = NONE


class ClaimSpec(Fields, frozen=True, gc=False):
    resources: Requested = Requested()


class ClaimCondition(Fields, frozen=True, gc=False):
    type: str
    status: str
    message: str = ""
    last_transition_time: str | None = None


class ClaimStatus(Fields, frozen=True, gc=False):
    capacity: Mapping[str, str] = NONE
    conditions: tuple[ClaimCondition, ...] = ()


class Claim(ManagedObject, frozen=True, gc=False):
    """A volume's claim: how large it is asked to be, and how large it is."""

    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


VALKEYS = Resource("Valkey", "valkeys", GROUP, VERSION)
VALKEY_CLUSTERS = Resource("ValkeyCluster", "valkeyclusters", GROUP, VERSION)
DEFAULTS = Resource("ValkeyClusterDefaults", "valkeyclusterdefaults", GROUP, VERSION)
VALKEY_NODES = Resource("ValkeyNode", "valkeynodes", GROUP, VERSION)
VALKEY_CAS = Resource("ValkeyCA", "valkeycas", GROUP, VERSION)
BUNDLES = Resource("ValkeyCertificateBundle", "valkeycertificatebundles", GROUP, VERSION)
BINDINGS = Resource("ValkeyCertificateBinding", "valkeycertificatebindings", GROUP, VERSION)


def as_stored(node: Custom) -> dict[str, Any]:
    """A ValkeyNode as the API would show it, for those who render from it."""
    metadata = {
        "name": node.metadata.name,
        "namespace": node.metadata.namespace,
        "uid": node.metadata.uid,
        "labels": dict(node.metadata.labels),
        "annotations": dict(node.metadata.annotations),
        "ownerReferences": [_owner(each) for each in node.metadata.owner_references],
    }
    head = {"apiVersion": VALKEY_NODES.api_version, "kind": VALKEY_NODES.kind}
    return {**head, "metadata": metadata, "spec": node.spec}


def _owner(reference: OwnerReference) -> dict[str, Any]:
    owner = {"apiVersion": reference.api_version, "kind": reference.kind, "name": reference.name}
    return {**owner, "uid": reference.uid, "controller": reference.controller, "blockOwnerDeletion": True}


def is_of(item: Object, kind: str) -> bool:
    """Whether it was made for a deployment of this kind: one of another kind may have the same name."""
    return any(owner.kind == kind for owner in item.metadata.owner_references)
