"""One deployment across several Kubernetes clusters."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from valkey_operator.api.core import KeyReference
from valkey_operator.api.deployments import ValkeyClusterSpec, ValkeySpec
from valkey_operator.api.model import Model, Name, Rule, list_map
from valkey_operator.api.status import Operation, ShortText, Status, Time


class Site(Model):
    """One Kubernetes cluster."""

    name: Name
    """The site's name."""

    region: Annotated[str, Field(max_length=63)] | None = None
    """Where it is, for people."""

    kubeconfig_secret_ref: KeyReference | None = None
    """The key of a Secret with a kubeconfig of that cluster; without it, the cluster this object is in."""

    namespace: Name | None = None
    """The namespace there; default: this object's own."""


class SiteTemplate(Model):
    """What runs at each site."""

    cluster: ValkeyClusterSpec | None = None
    """A ValkeyCluster."""

    valkey: ValkeySpec | None = None
    """A Valkey."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.cluster) != has(self.valkey)",
            "give exactly one of cluster and valkey",
            holds=lambda template: (template.cluster is None) != (template.valkey is None),
        ),
    )


class ValkeyMultiClusterSpec(Model):
    """One site takes writes, the others follow it."""

    sites: Annotated[list[Site], list_map("name"), Field(min_length=2, max_length=8)]
    """The Kubernetes clusters."""

    primary_site: Name
    """The site that takes writes. Editing it is the planned switchover."""

    template: SiteTemplate
    """What runs at each site."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.sites.exists(site, site.name == self.primarySite)",
            "primarySite is %s, which is not one of sites",
            ("self.primarySite",),
            field_path=".primarySite",
            holds=lambda spec: spec.primary_site in {site.name for site in spec.sites},
        ),
        Rule(
            "self.sites.filter(site, !has(site.kubeconfigSecretRef)).size() <= 1",
            "at most one site may be without kubeconfigSecretRef: the cluster this object is in",
            field_path=".sites",
            holds=lambda spec: sum(site.kubeconfig_secret_ref is None for site in spec.sites) <= 1,
        ),
    )


class SiteStatus(Model):
    """How one site is."""

    name: Name
    """The site."""

    role: Literal["primary", "follower", "unknown"]
    """What it is."""

    reachable: bool
    """Whether its API server answers."""

    lag_bytes: int | None = None
    """How far it is behind, in bytes of the replication stream."""

    lag_seconds: int | None = None
    """How far it is behind, in seconds."""

    state: ShortText | None = None
    """How its deployment is."""

    last_seen: Time | None = None
    """When it last answered."""


class ValkeyMultiClusterStatus(Status):
    """How the deployment is as a whole."""

    primary_site: Name | None = None
    """The site that takes writes now."""

    operation: Operation | None = None
    """What is being done."""

    sites: Annotated[list[SiteStatus], list_map("name"), Field(max_length=8)] | None = None
    """The sites."""
