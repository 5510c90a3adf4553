"""One pod with its Service and volume. Made by the operator only; deliberately without an opinion on topology."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from valkey_operator.api.model import LIST_ATOMIC, Model, Name, Quantity, Strings, SubdomainName
from valkey_operator.api.shared import Service
from valkey_operator.api.status import LongText, ShortText, Status

PodTemplate = Annotated[
    dict[str, Any],
    WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
]


Address = Annotated[str, Field(max_length=64)]


class NodePersistence(Model):
    """The volume of the node."""

    enabled: bool
    """Whether it has one."""

    size: Quantity | None = None
    """Its size."""

    storage_class_name: SubdomainName | None = None
    """Its storage class."""

    reclaim_policy: Literal["Retain", "Delete"] | None = None
    """What happens to it when the deployment is deleted; default Retain."""


class NodeCluster(Model):
    """Whether the server speaks the cluster protocol."""

    enabled: bool
    """Whether it does."""


class NodeConfig(Model):
    """What the server is told."""

    cluster: NodeCluster | None = None
    """Whether it speaks the cluster protocol."""

    replica_of: Name | None = None
    """The ValkeyNode it follows; empty for a primary."""

    epoch: Annotated[int, Field(ge=0)] | None = None
    """The change of the primary that this belongs to; the newest one wins."""

    members: Annotated[list[Name], LIST_ATOMIC, Field(min_length=1, max_length=100)] | None = None
    """All ValkeyNodes that hold the same data, itself included: of the deployment, or of its shard."""

    files: Strings | None = None
    """Rendered files by name, such as valkey.conf."""


class ValkeyNodeSpec(Model):
    """One pod."""

    type: Literal["valkey", "sentinel"]
    """What runs in it."""

    pod_management_type: Literal["statefulset", "deployment"] | None = None
    """What runs the pod; default statefulset."""

    pod_template: PodTemplate | None = None
    """The pod, in the core API's own shape."""

    persistence: NodePersistence | None = None
    """Its volume."""

    service: Service | None = None
    """Its Service."""

    valkey_config: NodeConfig | None = None
    """What the server is told."""


class ValkeyNodeStatus(Status):
    """How the node is."""

    pod_name: ShortText | None = None
    """Its pod."""

    pod_uid: ShortText | None = Field(default=None, alias="podUID")
    """The very pod that the operator deals with: the first one, until it is gone for sure."""

    pod_ip: Address | None = Field(default=None, alias="podIP")
    """The pod's address."""

    service_name: ShortText | None = None
    """Its Service."""

    service_ip: Address | None = Field(default=None, alias="serviceIP")
    """The Service's address."""

    pvc_name: ShortText | None = None
    """Its volume's claim."""

    managed_resource_name: ShortText | None = None
    """What runs the pod."""

    managed_resource_kind: ShortText | None = None
    """StatefulSet or Deployment."""

    node_id: ShortText | None = None
    """The server's own id in the cluster protocol."""

    observed_role: Literal["primary", "replica", "sentinel", "unknown"] | None = None
    """What the server says it is."""

    observed_replica_of: ShortText | None = None
    """Whom it follows."""

    ready: bool | None = None
    """Whether it serves."""

    valkey_version: ShortText | None = None
    """The server's version."""

    sidecar_version: ShortText | None = None
    """The sidecar's version."""

    config_fingerprint: ShortText | None = None
    """What configuration is in force."""

    certificate_fingerprint: ShortText | None = None
    """What certificate is in force."""

    needs_restart: bool | None = None
    """Whether a change waits for a restart."""

    needs_restart_reason: LongText | None = None
    """Which one."""
