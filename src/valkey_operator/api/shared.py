"""What all deployments have in common: image, scheduling, volume, TLS, users, service, exporter, update."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, JsonValue, WithJsonSchema

from valkey_operator.api.auth import Auth
from valkey_operator.api.core import (
    Affinity,
    LocalReference,
    PodSecurityContext,
    Resources,
    Toleration,
    TopologySpreadConstraint,
)
from valkey_operator.api.model import (
    LIST_ATOMIC,
    Cron,
    Duration,
    Matches,
    Model,
    Port,
    Rule,
    Strings,
    Validity,
    list_map,
)
from valkey_operator.api.storage import Persistence
from valkey_operator.api.tls import BUS_PORTS, RotateBeforePercent, Tls

Image = Annotated[
    str,
    Field(max_length=512),
    Matches(
        r"^[^\s@]+(@sha256:[0-9a-f]{64})?$", "an image such as valkey/valkey:9.1, with or without @sha256:…"
    ),
]
PullPolicy = Literal["Always", "IfNotPresent", "Never"]
PullSecrets = Annotated[list[LocalReference], list_map("name"), Field(max_length=16)]
Config = Annotated[
    dict[str, JsonValue],  # what a directive may be depends on the server: validation.py
    Field(max_length=256),
    WithJsonSchema(
        {
            "type": "object",
            "maxProperties": 256,
            "additionalProperties": {"x-kubernetes-preserve-unknown-fields": True},
        }
    ),
]

# Of the server's clients, the sidecar's probes and its channel; see `render.pod`.
POD_PORTS = (6379, 8080, 9443)


class Replication(Model):
    """How replicas follow their primary."""

    diskless_sync: bool | None = None
    """Send a new replica its data without writing it to disk first; default true."""

    min_replicas_to_write: Annotated[int, Field(ge=0, le=100)] | None = None
    """Refuse writes with fewer replicas than this in reach; default: no limit."""

    min_replicas_max_lag: Annotated[int, Field(ge=1, le=86400)] | None = None
    """A replica is in reach when it answered within this many seconds; default 10."""


class ReadService(Model):
    """A Service over replicas only."""

    enabled: bool | None = None
    """Make the Service <name>-read; default false. It never leads to the primary; without replicas nowhere."""


class Service(Model):
    """The Services of the deployment."""

    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] | None = None
    """How clients outside reach <name> and <name>-read; default ClusterIP."""

    annotations: Strings | None = None
    """Put on the Services that clients use, <name> and <name>-read, for load balancers and DNS; not of valkey.io."""


class Exporter(Model):
    """Metrics of each server for Prometheus."""

    enabled: bool | None = None
    """Run an exporter beside each server; default false."""

    image: Image | None = None
    """The exporter's image; default: the one the operator was released with."""

    image_pull_policy: PullPolicy | None = None
    """When the image is pulled."""

    resources: Resources | None = None
    """What the exporter asks for and may use."""

    port: Port | None = None
    """The port of the metrics; default 9121. One that nothing else in the pod listens at."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"!has(self.port) || !(self.port in {[*POD_PORTS]}) && "
            f"(self.port < {BUS_PORTS.start} || self.port >= {BUS_PORTS.stop})",
            f"ports {', '.join(map(str, POD_PORTS))} and {BUS_PORTS.start} to {BUS_PORTS.stop - 1} are for the server, "
            "the sidecar and the cluster bus in the same pod; take another one, such as 9121",
            field_path=".port",
            holds=lambda exporter: exporter.port not in (*POD_PORTS, *BUS_PORTS),
        ),
    )


class Mtls(Model):
    """Certificates between operator and sidecar."""

    validity: Validity | None = None
    """How long they are valid; default 90d."""

    rotate_before_percent: RotateBeforePercent | None = None
    """They are renewed after this part of their life, 66 (default) to 80 percent."""


class Sidecar(Model):
    """The operator's process beside each server."""

    image: Image | None = None
    """The sidecar's image; default: the one the operator was released with."""

    resources: Resources | None = None
    """What the sidecar asks for and may use."""

    mtls: Mtls | None = None
    """Its certificates."""


class Update(Model):
    """How changes that need a restart reach the servers."""

    strategy: Literal["Rolling", "OnDelete"] | None = None
    """Rolling (default): replicas first, then a handover, then the old primary. OnDelete: when you delete a pod."""

    max_parallel_shards: Annotated[int, Field(ge=1, le=100)] | None = None
    """How many shards, or instances of a pool, are updated at once; default 1."""

    supervised: bool | None = None
    """Wait for your word before each shard; default false."""

    window: Cron | None = None
    """When updates may begin, as a cron time in UTC; default: at once."""

    window_duration: Duration | None = None
    """How long each window stays open; default 1h."""


class Disruption(Model):
    """What happens when somebody wants a pod gone."""

    mode: Literal["Guarded", "Budget", "None"] | None = None
    """Guarded (default): a primary is handed over before its pod may go. Budget: one pod of a shard at a time. None."""


class Workload(Model):
    """Fields of every deployment, Sentinel included."""

    image: Image | None = None
    """The server's image; default: the newest Valkey this operator was tested with. Changing it rolls the servers."""

    image_pull_policy: PullPolicy | None = None
    """When the image is pulled; default IfNotPresent."""

    image_pull_secrets: PullSecrets | None = None
    """Secrets to pull images with."""

    paused: bool | None = None
    """Stop acting on this deployment, but for renewing certificates; default false. Shown in status and alerted on."""

    resources: Resources | None = None
    """What the server asks for and may use. `maxmemory` follows the memory limit unless `config` sets it."""

    labels: Strings | None = None
    """Added to every object made for this deployment. Keys of valkey.io are the operator's own, and are refused; of
    app.kubernetes.io/name, instance, component, managed-by and part-of its own values stay."""

    annotations: Strings | None = None
    """Added to every object made for this deployment. Keys of valkey.io are the operator's own, and are refused."""

    node_selector: Strings | None = None
    """Labels of the Kubernetes nodes that pods may run on."""

    affinity: Affinity | None = None
    """Where pods run; replaces the soft spreading over hosts and zones that is there by default."""

    tolerations: Annotated[list[Toleration], LIST_ATOMIC, Field(max_length=64)] | None = None
    """Taints of Kubernetes nodes that pods put up with."""

    topology_spread_constraints: (
        Annotated[
            list[TopologySpreadConstraint], list_map("topologyKey", "whenUnsatisfiable"), Field(max_length=16)
        ]
        | None
    ) = None
    """How evenly pods are spread; replaces the soft spreading that is there by default."""

    priority_class_name: Annotated[str, Field(max_length=253)] | None = None
    """How important the pods are, by the name of a PriorityClass."""

    pod_management_type: Literal["statefulset", "deployment"] | None = None
    """What runs each pod: a StatefulSet (default) or a Deployment of one. Cannot be changed after creation."""

    security_context: PodSecurityContext | None = None
    """Under whom the pods run; the defaults satisfy the restricted Pod Security Standard."""

    termination_grace_period_seconds: Annotated[int, Field(ge=30, le=86400)] | None = None
    """How long a pod may take to hand over and stop; default: long enough for the data it holds."""

    tls: Tls | None = None
    """Encryption of clients, replication and the cluster bus; off by default."""

    auth: Auth | None = None
    """Who may log in and do what; nobody is asked by default."""

    service: Service | None = None
    """The Services of the deployment."""

    exporter: Exporter | None = None
    """Metrics of each server for Prometheus."""

    sidecar: Sidecar | None = None
    """The operator's process beside each server."""

    config: Config | None = None
    """Directives of valkey.conf that have no field here: text, number, boolean (yes/no) or a list (repeated)."""

    update: Update | None = None
    """How changes that need a restart reach the servers."""

    disruption: Disruption | None = None
    """What happens when somebody wants a pod gone."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(oldSelf.podManagementType) || "
            "(has(self.podManagementType) && self.podManagementType == oldSelf.podManagementType)",
            "podManagementType cannot be changed after creation; make a new deployment and restore a backup into it",
            field_path=".podManagementType",
        ),
    )


class Server(Workload):
    """Fields of every deployment that keeps data."""

    persistence: Persistence | None = None
    """The volume of each server and what is kept on it."""

    replication: Replication | None = None
    """How replicas follow their primary."""

    read_service: ReadService | None = None
    """A Service over replicas only."""

    rules: ClassVar[tuple[Rule, ...]] = (
        *Workload.rules,
        *(
            Rule(
                f"!has(oldSelf.persistence) || !has(oldSelf.persistence.{field}) || (has(self.persistence) && "
                f"has(self.persistence.{field}) && self.persistence.{field} == oldSelf.persistence.{field})",
                f"persistence.{field} cannot be changed after creation; make a new deployment and restore a "
                "backup into it",
                field_path=f".persistence.{field}",
            )
            for field in ("enabled", "storageClassName")
        ),
        Rule(
            "!has(self.persistence) || !has(self.persistence.size) || !has(oldSelf.persistence) || "
            "!has(oldSelf.persistence.size) || quantity(string(self.persistence.size))"
            ".compareTo(quantity(string(oldSelf.persistence.size))) >= 0",
            "persistence.size cannot shrink from %s to %s; volumes only grow",
            ("oldSelf.persistence.size", "self.persistence.size"),
            field_path=".persistence.size",
        ),
    )
