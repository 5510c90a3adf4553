"""Chooses where the cluster comes from."""

from __future__ import annotations

import os
from pathlib import Path

from devcluster import kind
from devcluster.cluster import Cluster, EmbeddedCluster
from devcluster.existing import ExistingCluster
from devcluster.places import default_name, require_name
from devcluster.problem import Problem

PROVIDERS = ("embedded", "existing", "kind")


def checkout() -> Path:
    """The folder of the project that this package is used from."""
    here = Path(__file__).resolve().parents[3]
    return here if (here / "images").is_dir() else Path.cwd()


def choose(provider: str | None = None, name: str | None = None) -> Cluster:
    """The provider said, or said by PROVIDER, else kind where it can run, else the embedded one."""
    said = provider or os.environ.get("PROVIDER") or ("kind" if kind.is_possible() else "embedded")
    called = require_name(name or os.environ.get("DEVCLUSTER_NAME") or default_name(checkout()))
    match said:
        case "embedded":
            return EmbeddedCluster(called)
        case "existing":
            return ExistingCluster(called)
        case "kind":
            return kind.KindCluster(called)
    raise Problem(f"there is no provider {said!r}; choose one of {', '.join(PROVIDERS)}")
