"""Default values for deployments in a namespace, or for all when it is the operator's."""

from __future__ import annotations

from typing import ClassVar

from valkey_operator.api.deployments import AzDistribution, ClusterSettings
from valkey_operator.api.model import Model, Rule
from valkey_operator.api.shared import Server
from valkey_operator.api.status import Status


class Require(Model):
    """What deployments must have."""

    tls: bool | None = None
    """Refuse deployments without TLS; default false."""

    auth: bool | None = None
    """Refuse deployments without a password or users; default false."""


class ValkeyClusterDefaultsSpec(Server):
    """Any field of a deployment but its counts. Maps merge, lists replace."""

    cluster: ClusterSettings | None = None
    """Settings of the cluster protocol, for ValkeyClusters."""

    az_distribution: AzDistribution | None = None
    """Which zones shards live in, for ValkeyClusters and ValkeyPools."""

    require: Require | None = None
    """What deployments must have. What the operator's namespace requires, no other namespace takes back."""

    rules: ClassVar[tuple[Rule, ...]] = ()


class ValkeyClusterDefaultsStatus(Status):
    """How the defaults are."""

    applies_to: int | None = None
    """How many deployments use them."""
