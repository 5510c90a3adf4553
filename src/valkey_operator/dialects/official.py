"""The official operator's `ValkeyCluster`: the same group, version and kind as ours, with other fields.

Its `replicas` leaves the primary out, and it keeps no data unless told to. All its releases are understood, up to 0.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from valkey_operator.api import directives
from valkey_operator.api.validation import server_version
from valkey_operator.dialects import selectors
from valkey_operator.dialects.block import Block
from valkey_operator.dialects.conversion import Conversion
from valkey_operator.dialects.fields import EMPTY, Fields, decimal
from valkey_operator.dialects.memory import tell_limit
from valkey_operator.dialects.official_users import convert_users
from valkey_operator.dialects.passwords import Passwords

NAME = "the official operator"
DEFAULT = "the default there"
HOSTNAME, ZONE = selectors.HOSTNAME, "topology.kubernetes.io/zone"
CLUSTER_LABEL = "valkey.io/cluster"
LABELS_NOT_HERE = ("valkey.io/shard-index", "valkey.io/node-index")
# Set by that operator for every cluster; a user's value had no effect.
FIXED_THERE = (
    "cluster-enabled", "protected-mode", "cluster-node-timeout", "cluster-allow-replica-migration",
    "cluster-replica-validity-factor", "shutdown-on-sigterm", "aclfile", "dir", "cluster-config-file",
)  # fmt: skip
SAVE_POINTS = [
    {"seconds": 3600, "changes": 1},
    {"seconds": 300, "changes": 100},
    {"seconds": 60, "changes": 10000},
]
WORKLOADS = {"StatefulSet": "statefulset", "Deployment": "deployment"}
SCHEDULED = ("tolerations", "nodeSelector", "affinity", "priorityClassName", "topologySpreadConstraints")
SPREADS = {"Disabled": None, "Preferred": "ScheduleAnyway", "Required": "DoNotSchedule"}
BUDGETS = {"Cluster": "Budget", "Managed": "Budget", "Disabled": "None"}


def convert_cluster(conversion: Conversion) -> None:
    fields = Fields(conversion.document.content.get("spec"))
    block = Block()
    passwords = Passwords(conversion.free_secret())
    _counts(fields, block, conversion)
    image = fields.text("image")
    block.put("image", *((image, "") if image else ("valkey/valkey:9.0.0", DEFAULT)))
    for same in ("imagePullSecrets", "resources", "terminationGracePeriodSeconds"):
        block.put(same, fields.take(same))
    _workload(fields, block, conversion)
    _persistence(fields, block)
    _tls(fields, block, conversion)
    convert_users(fields.parts("users"), block, conversion, passwords)
    _config(fields, block, conversion, passwords)
    tell_limit(block, conversion)
    _scheduling(fields, block, conversion)
    _exporter(fields, block)
    _disruption(fields, block, conversion)
    block.put("securityContext", fields.take("podSecurityContext"), "was podSecurityContext")
    if fields.says("containers"):
        conversion.cannot("spec.containers", "containers are the operator's own here")
    if passwords.found:
        conversion.make_secret(passwords.name, passwords.found)
    conversion.make("ValkeyCluster", block)
    conversion.lose(fields)


def convert_node(conversion: Conversion) -> None:
    """Its cluster made it, and ours makes its own; one that stands alone has no kind here."""
    if conversion.document.metadata.get("ownerReferences"):
        conversion.note("left out: the operator makes it by itself")
    else:
        conversion.cannot("spec", "a ValkeyNode that nobody owns is not made here: write a Valkey")


def _counts(fields: Fields, block: Block, conversion: Conversion) -> None:
    shards, replicas = fields.count("shards"), fields.count("replicas")
    if shards is None:
        conversion.cannot("spec.shards", "it is required there and missing")
    elif shards < 3:
        block.put("shards", 3, f"shards was {shards}; a cluster has at least 3 here")
        conversion.cannot(
            "spec.shards", f"it is {shards}; a ValkeyCluster has at least 3 shards, a Valkey is one"
        )
    else:
        block.put("shards", shards)
    said = "replicas is 0 by default there" if replicas is None else f"replicas was {replicas}"
    block.put("replicas", (replicas or 0) + 1, f"{said}; here the primary counts too")


def _workload(fields: Fields, block: Block, conversion: Conversion) -> None:
    kind = fields.text("workloadType")
    if kind is not None and kind not in WORKLOADS:
        conversion.cannot("spec.workloadType", "it is StatefulSet or Deployment")
    elif kind is not None:
        block.put("podManagementType", WORKLOADS[kind], "was workloadType")


def _persistence(fields: Fields, block: Block) -> None:
    if "persistence" not in fields:
        block.put("persistence.enabled", False, f"no volume is {DEFAULT}; it cannot be changed later")
        return
    persistence = fields.part("persistence")
    block.put("persistence.enabled", True)
    for name in ("size", "storageClassName", "reclaimPolicy"):
        block.put(f"persistence.{name}", persistence.text(name))
    config = fields.see("config")
    if not (isinstance(config, dict) and "save" in config):
        block.put("persistence.rdb.savePolicy", SAVE_POINTS, DEFAULT)


def _tls(fields: Fields, block: Block, conversion: Conversion) -> None:
    """`networking.tls.certificates.server.secretName`, and `tls.certificate.secretName` before 0.5."""
    networking = fields.part("networking")
    new = networking.part("tls") if "tls" in networking else None
    old = fields.part("tls") if "tls" in fields else None
    if new is None and old is None:
        return
    name = new.part("certificates").part("server").text("secretName") if new else None
    older = old.part("certificate").text("secretName") if old else None
    if name and older not in (None, name):
        conversion.cannot("spec.tls", "networking.tls says it too, and its Secret is taken")
    name = name or older
    if not name:
        conversion.cannot("spec.networking.tls", "it names no Secret with certificates")
        return
    block.put("tls.enabled", True)
    block.put("tls.certificateRef.name", name)
    block.put("tls.clientAuth", "request", "clients need no certificate there")


def _config(fields: Fields, block: Block, conversion: Conversion, passwords: Passwords) -> None:
    """Directives as they are, but for passwords and those that are not up to a manifest."""
    config = fields.part("config")
    version = server_version(str(block.values["image"]))
    for name in config.names():
        value = config.take(name)
        if name == "requirepass":
            _password(value, block, conversion, passwords)
        elif name in FIXED_THERE:
            conversion.note(f"config.{name} is left out: that operator fixed it, so it had no effect")
        elif name in directives.FIELDS and (number := decimal(str(value))) is not None:
            block.put(directives.FIELDS[name], number, f"was config.{name}")
        elif refusal := directives.refusal(name, value, version):
            config.fault(name, refusal)
        else:
            block.values.setdefault("config", {})[name] = value


def _password(value: Any, block: Block, conversion: Conversion, passwords: Passwords) -> None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        conversion.cannot("spec.config.requirepass", "it has to be text; put it in quotes")
    elif str(value):
        block.put("auth.password.secret", passwords.keep("default", str(value)), "was config.requirepass")


def _scheduling(fields: Fields, block: Block, conversion: Conversion) -> None:
    """Under `scheduling` since 0.4, at the top before."""
    name = conversion.document.name
    scheduling = fields.part("scheduling")
    for same in SCHEDULED:
        older, newer = fields.take(same), scheduling.take(same)
        if newer is not None and older not in (*EMPTY, newer):
            fields.fault(same, f"scheduling.{same} says it too, and is taken")
        block.put(same, older if newer is None else newer)
    missing = sorted(set(LABELS_NOT_HERE) & set(selectors.labels_chosen(block.values)))
    for label in missing:
        conversion.cannot(
            "spec.scheduling", f"pods have no label {label} here: the rule that uses it matches nothing"
        )
    nodes = scheduling.part("node").part("spread")
    zone = scheduling.part("zone")
    given = block.values.get("topologySpreadConstraints") or []
    own = [_pair(constraint) for constraint in given] if isinstance(given, list) else []
    spread = [*_spread(nodes, HOSTNAME, name, own), *_spread(zone.part("spread"), ZONE, name, own)]
    if spread and isinstance(given, list):
        comment = "was scheduling.node.spread and scheduling.zone.spread"
        block.put("topologySpreadConstraints", [*given, *spread], comment)
    elif spread:
        conversion.cannot(
            "spec.scheduling",
            "topologySpreadConstraints has to be a list, so node.spread and zone.spread are left out",
        )
    _pinning(zone, block)


def _pair(constraint: Any) -> tuple[Any, Any]:
    """What a pod may have one constraint of only."""
    found = constraint if isinstance(constraint, dict) else {}
    return found.get("topologyKey"), found.get("whenUnsatisfiable")


def _spread(spread: Fields, topology: str, name: str, own: list[tuple[Any, Any]]) -> list[dict[str, Any]]:
    """Without a selector, the pods of a shard are spread; primaries alone cannot be chosen. `own`: the user's."""
    constraints: list[dict[str, Any]] = []
    selects: Mapping[str, dict[str, Any]] = {
        "shard": {},
        "pods": {"labelSelector": {"matchLabels": {CLUSTER_LABEL: name}}},
    }
    for dimension in ("shard", "primaries", "pods"):
        mode = spread.part(dimension).text("mode") or "Disabled"
        if mode not in SPREADS:
            spread.fault(f"{dimension}.mode", f"it is {', '.join(SPREADS)}")
        elif SPREADS[mode] and dimension not in selects:
            spread.fault(dimension, "no label tells the first server of each shard here")
        elif (when := SPREADS[mode]) and (topology, when) in [*own, *map(_pair, constraints)]:
            spread.fault(
                dimension,
                f"a pod can have one constraint with {topology} and {when}, and there is one already",
            )
        elif when:
            constraints.append(
                {"maxSkew": 1, "topologyKey": topology, "whenUnsatisfiable": when, **selects[dimension]}
            )
    return constraints


def _pinning(zone: Fields, block: Block) -> None:
    zones = zone.part("pinning").take("zones")
    if zones not in EMPTY:
        block.put(
            "azDistribution.zones", zones, "was scheduling.zone.pinning; here a zone is preferred, not forced"
        )
        zone.fault("pinning", "carried over as azDistribution, which prefers a zone and does not force it")


def _exporter(fields: Fields, block: Block) -> None:
    if "exporter" not in fields:
        block.put("exporter.enabled", True, DEFAULT)
        return
    exporter = fields.part("exporter")
    enabled = exporter.flag("enabled")
    block.put(
        "exporter.enabled",
        *((False, f"{DEFAULT} where exporter is there") if enabled is None else (enabled,)),
    )
    block.put("exporter.image", exporter.text("image"))
    block.put("exporter.resources", exporter.take("resources"))
    for name in ("args", "securityContext"):
        if exporter.says(name):
            exporter.fault(name, "the exporter is the operator's own here")


def _disruption(fields: Fields, block: Block, conversion: Conversion) -> None:
    if isinstance(fields.see("podDisruptionBudget"), str):
        mode = fields.text("podDisruptionBudget")
    else:
        mode = fields.part("podDisruptionBudget").text("mode")
    if mode is not None and mode not in BUDGETS:
        conversion.cannot("spec.podDisruptionBudget", "it is Cluster or Disabled")
        return
    default = f"a budget is {DEFAULT}; without this line a primary is handed over before its pod goes"
    block.put(
        "disruption.mode", BUDGETS[mode or "Cluster"], default if mode is None else "was podDisruptionBudget"
    )
