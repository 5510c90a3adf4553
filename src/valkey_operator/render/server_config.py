"""The server's configuration file, as far as the operator knows it; the sidecar adds what only the pod knows."""

from __future__ import annotations

from collections.abc import Iterator

from valkey_operator.api.directives import as_lines
from valkey_operator.api.quantity import quantity_bytes
from valkey_operator.model.deployment import Deployment
from valkey_operator.model.times import span
from valkey_operator.render.bus import bus_port

# Of the memory limit: the rest is for forks, replication and client buffers.
SHARE_WITH_COPIES = 0.70
SHARE_ALONE = 0.85


def valkey_conf(deployment: Deployment) -> str:
    """One directive per line and each name once, for `save` twice would mean both; what people set wins."""
    parts = (
        _network(),
        _cluster(deployment),
        _persistence(deployment),
        _replication(deployment),
        _memory(deployment),
    )
    ours = dict(line.split(" ", 1) for part in parts for line in part)
    theirs = deployment.value("config", {})
    lines = [f"{name} {value}" for name, value in ours.items() if name not in theirs]
    lines += [f"{name} {text}" for name, value in theirs.items() for text in as_lines(name, value)]
    return "\n".join([*lines, ""])


def _network() -> Iterator[str]:
    yield "port 6379"
    yield "protected-mode no"
    yield "enable-debug-command no"


def _cluster(deployment: Deployment) -> Iterator[str]:
    """Where the server is found is added by the sidecar."""
    if deployment.kind != "ValkeyCluster":
        return
    yield "cluster-enabled yes"
    # Without it the bus would move to another port when TLS is turned on.
    yield f"cluster-port {bus_port(deployment)}"
    timeout = span(deployment.value("cluster.nodeTimeout", "5s"))
    yield f"cluster-node-timeout {round(timeout.total_seconds() * 1000)}"
    # Otherwise a primary that has given its last slot away follows the one that got it, with all its replicas.
    yield "cluster-allow-replica-migration no"
    # Else every shard would refuse its clients while another one has no primary.
    yield "cluster-require-full-coverage no"
    yield f"cluster-migration-barrier {deployment.value('cluster.migrationBarrier', 1)}"
    yield f"cluster-allow-reads-when-down {_yes(deployment.value('cluster.allowReadsWhenDown', False))}"
    yield f"replica-read-only {_yes(deployment.value('cluster.replicaReadOnly', True))}"


def _persistence(deployment: Deployment) -> Iterator[str]:
    points = deployment.value("persistence.rdb.savePolicy", [])
    if not deployment.value("persistence.rdb.enabled", True) or not points:
        yield 'save ""'
    else:
        yield "save " + " ".join(f"{point['seconds']} {point['changes']}" for point in points)
        yield f"rdbcompression {_yes(deployment.value('persistence.rdb.compression', True))}"
    yield f"appendonly {_yes(deployment.value('persistence.aof.enabled', False))}"
    yield f"appendfsync {deployment.value('persistence.aof.fsync', 'everysec')}"
    yield f"auto-aof-rewrite-percentage {deployment.value('persistence.aof.rewritePercentage', 100)}"
    yield f"auto-aof-rewrite-min-size {deployment.value('persistence.aof.rewriteMinSize', '64mb')}"


def _replication(deployment: Deployment) -> Iterator[str]:
    yield f"repl-diskless-sync {_yes(deployment.value('replication.disklessSync', True))}"
    # The default waits five seconds for more replicas; and a load through a file costs up to a second more.
    yield "repl-diskless-sync-delay 0"
    yield "repl-diskless-load on-empty-db"
    # A link that is silent for longer tells of a primary that is lost, see `decide.succession`.
    yield "repl-ping-replica-period 1"
    wanted = deployment.value("replication.minReplicasToWrite", 0)
    yield f"min-replicas-to-write {wanted}"
    yield f"min-replicas-max-lag {deployment.value('replication.minReplicasMaxLag', 10)}"


def _memory(deployment: Deployment) -> Iterator[str]:
    limit = quantity_bytes(deployment.value("resources.limits.memory", ""))
    if limit is not None:
        has_copies = deployment.value("persistence.enabled") or deployment.value("replicas", 1) > 1
        share = SHARE_WITH_COPIES if has_copies else SHARE_ALONE
        yield f"maxmemory {int(limit * share)}"


def _yes(value: bool) -> str:
    return "yes" if value else "no"
