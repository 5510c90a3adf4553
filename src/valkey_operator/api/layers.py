"""What a deployment really gets: built-in < defaults of the operator's namespace < of its own < its spec.

Pure. Maps merge, lists replace. Every value of the result is told with the layer it came from, so that
"why is it so?" has an answer. Specs stay as people wrote them: this is computed anew wherever it is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from valkey_operator.api.deployments import SentinelSpec, ValkeyClusterSpec, ValkeySpec
from valkey_operator.api.model import Model

Tree = Mapping[str, Any]
# The names that lead to a value, not joined: labels and annotations have dots in theirs.
Path = tuple[str, ...]

BUILT_IN_LAYER = "built-in"
PINNED_LAYER = "pinned at creation"
SPEC_LAYER = "spec"
# What cannot be changed, and so is not by defaults either.
IMMUTABLE: tuple[Path, ...] = (
    ("podManagementType",),
    ("persistence", "enabled"),
    ("persistence", "storageClassName"),
)

BUILT_IN: Tree = {
    "image": "valkey/valkey:9.1",
    "imagePullPolicy": "IfNotPresent",
    "paused": False,
    "podManagementType": "statefulset",
    "securityContext": {
        "runAsUser": 10001,
        "runAsGroup": 10001,
        "runAsNonRoot": True,
        "fsGroup": 10001,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    },
    "persistence": {
        "enabled": True,
        "size": "10Gi",
        "reclaimPolicy": "Retain",
        "rdb": {
            "savePolicy": [
                {"seconds": 900, "changes": 1},
                {"seconds": 300, "changes": 10},
                {"seconds": 60, "changes": 10000},
            ],
            "compression": True,
        },
        "aof": {"enabled": False, "fsync": "everysec", "rewritePercentage": 100, "rewriteMinSize": "64mb"},
    },
    "tls": {
        "enabled": False,
        "certKey": "tls.crt",
        "keyKey": "tls.key",
        "caKey": "ca.crt",
        "clientAuth": "require",
        "clientAuthUser": "off",
        "minVersion": "TLS12",
        "port": 6379,
        "disablePlaintextPort": True,
        "replication": True,
        "clusterBus": True,
        "validity": "90d",
        "rotateBeforePercent": 66,
        "restartWindowDuration": "1h",
    },
    "auth": {"rotationOverlap": "10m"},
    "replication": {"disklessSync": True, "minReplicasMaxLag": 10},
    "readService": {"enabled": False},
    "service": {"type": "ClusterIP"},
    "exporter": {"enabled": False, "image": "oliver006/redis_exporter:v1.69.0", "port": 9121},
    "sidecar": {"mtls": {"validity": "90d", "rotateBeforePercent": 66}},
    "update": {"strategy": "Rolling", "maxParallelShards": 1, "supervised": False, "windowDuration": "1h"},
    "disruption": {"mode": "Guarded"},
    "cluster": {
        "nodeTimeout": "5s",
        "replicaReadOnly": True,
        "allowReadsWhenDown": False,
        "migrationBarrier": 1,
    },
    "defaultConfig": {"downAfterMilliseconds": "30000", "failoverTimeout": "180000", "parallelSyncs": "1"},
}

# Choices of which a deployment makes one: whoever chooses in a higher layer drops the other choices of lower ones.
CHOICES: tuple[tuple[Path, tuple[frozenset[str], ...]], ...] = (
    (
        ("tls",),
        (
            frozenset({"policyRef"}),
            frozenset({"certificateRef"}),
            frozenset({"issuerRef"}),
        ),
    ),
    (("auth",), (frozenset({"aclRef"}), frozenset({"acl"}))),
    (("auth", "acl"), (frozenset({"users"}), frozenset({"configSecretRef"}))),
)
# What only makes sense with the operator's own CA, or without a policy, is not carried along from below.
OWN_CA_ONLY = ("validity", "rotateBeforePercent")

APPLIES: dict[str, type[Model]] = {
    "ValkeyCluster": ValkeyClusterSpec,
    "Valkey": ValkeySpec,
    "ValkeyPool": ValkeySpec,  # its template
    "Sentinel": SentinelSpec,
}


@dataclass(frozen=True)
class Layer:
    """Values under a name that people recognise, such as `defaults of namespace payments`."""

    name: str
    values: Tree


@dataclass(frozen=True)
class Effective:
    """The values in force, and the layer that each came from, by its path."""

    values: dict[str, Any]
    origins: dict[Path, str] = field(default_factory=dict)


def effective(
    kind: str, spec: Tree, defaults: Sequence[Layer] = (), at_creation: Tree | None = None
) -> Effective:
    """Lay the layers of a deployment over each other; `defaults` from the weakest to the strongest, `at_creation` what
    they gave then for what cannot be changed."""
    known = {name.alias or key for key, name in APPLIES[kind].model_fields.items()}
    result = Effective({})

    def lay(layer: Layer) -> None:
        _lay(result, {key: value for key, value in layer.values.items() if key in known}, layer.name)

    for layer in (Layer(BUILT_IN_LAYER, BUILT_IN), *defaults):
        lay(layer)
    if at_creation:
        _pin(result, at_creation)
        lay(Layer(PINNED_LAYER, at_creation))
    lay(Layer(SPEC_LAYER, spec))
    _derive(kind, result)
    return result


def _pin(result: Effective, at_creation: Tree) -> None:
    """A storage class that was not asked for at creation is not asked for later; what else there is had a default."""
    block, lower = _at(at_creation, ("persistence",)), _at(result.values, ("persistence",))
    if block is not None and "storageClassName" not in block and isinstance(lower, dict):
        _drop(result, ("persistence",), lower, "storageClassName")


def pins(values: Tree) -> Iterator[tuple[Path, Any]]:
    """Of values, those that cannot be changed."""
    for *block, name in IMMUTABLE:
        given = _at(values, tuple(block))
        if given is not None and name in given:
            yield (*block, name), given[name]


def pinned(values: Tree) -> dict[str, Any]:
    """The same as a tree, for the status."""
    result = Effective({})
    for path, value in pins(values):
        tree: Any = value
        for part in reversed(path):
            tree = {part: tree}
        _merge(result.values, tree, (), "", result.origins)
    return result.values


def required(defaults: Sequence[Layer]) -> dict[str, str]:
    """What deployments must have, and who says so. No layer takes back what another one requires."""
    return {
        name: layer.name
        for layer in reversed(defaults)
        for name, is_required in (layer.values.get("require") or {}).items()
        if is_required
    }


def _lay(result: Effective, values: Tree, layer: str) -> None:
    values = _given(values)
    _drop_other_choices(result, values)
    _merge(result.values, values, (), layer, result.origins)


def _given(values: Tree) -> dict[str, Any]:
    """Without nulls: an API server takes them for nothing, and so does a block that was left empty."""
    return {
        key: _given(value) if isinstance(value, Mapping) else value
        for key, value in values.items()
        if value is not None
    }


def _merge(into: dict[str, Any], values: Tree, path: Path, layer: str, origins: dict[Path, str]) -> None:
    for key, value in values.items():
        here = (*path, key)
        existing = into.get(key)
        if isinstance(value, Mapping):
            if not isinstance(existing, dict):
                existing = into[key] = {}
                origins.pop(here, None)
            _merge(existing, value, here, layer, origins)
        else:
            _forget(origins, here)
            into[key] = value
            origins[here] = layer


def _forget(origins: dict[Path, str], gone: Path) -> None:
    for origin in [origin for origin in origins if origin[: len(gone)] == gone]:
        del origins[origin]


def _drop_other_choices(result: Effective, values: Tree) -> None:
    for path, choices in CHOICES:
        upper, lower = _at(values, path), _at(result.values, path)
        if upper is None or lower is None:
            continue
        chosen = [choice for choice in choices if choice & upper.keys()]
        for name in {name for choice in choices if chosen and choice not in chosen for name in choice}:
            _drop(result, path, lower, name)
        if path == ("tls",) and "policyRef" in upper:
            for name in [name for name in lower if name not in ("enabled", "policyRef")]:
                _drop(result, path, lower, name)
        elif path == ("tls",) and upper.keys() & {"certificateRef", "issuerRef"}:
            for name in OWN_CA_ONLY:
                _drop(result, path, lower, name)


def _drop(result: Effective, path: Path, tree: dict[str, Any], name: str) -> None:
    tree.pop(name, None)
    _forget(result.origins, (*path, name))


def _at(tree: Any, path: Path) -> Any:
    for part in path:
        if not isinstance(tree, Mapping) or part not in tree:
            return None
        tree = tree[part]
    return tree if isinstance(tree, Mapping) else None


def _derive(kind: str, result: Effective) -> None:
    """Values that follow from others when nobody sets them."""
    values, origins = result.values, result.origins
    if kind == "Sentinel" and "quorum" not in values:
        replicas = values.get("replicas", 3)
        # What is no number is refused.
        values["quorum"] = replicas // 2 + 1 if isinstance(replicas, int) else 1
        origins["quorum",] = "from replicas"
    if "persistence" in values and "enabled" not in values["persistence"]["rdb"]:
        values["persistence"]["rdb"]["enabled"] = values["persistence"]["enabled"]
        origins["persistence", "rdb", "enabled"] = "from persistence.enabled"


def lines(result: Effective) -> Iterator[tuple[str, str, str]]:
    """Path, value and origin of everything in force, for people."""
    for path, origin in sorted(result.origins.items()):
        value: Any = result.values
        for part in path:
            value = value[part]
        yield _written(path), said(value), origin


def _written(path: Path) -> str:
    """With dots between the names; a name that has one itself stands in brackets."""
    return "".join(f'["{part}"]' if "." in part else f".{part}" for part in path).removeprefix(".")


def said(value: Any) -> str:
    """As people write it."""
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
