"""`valkey-operator.smoketurner.com/v1alpha1`: clusters that always have TLS and a password.

Its defaults differ from ours and are written out: a converted manifest means what it meant.
"""

from __future__ import annotations

from typing import TypeVar

from valkey_operator.dialects import selectors
from valkey_operator.dialects.block import Block
from valkey_operator.dialects.conversion import Conversion
from valkey_operator.dialects.fields import Fields, decimal
from valkey_operator.dialects.memory import tell_limit

GROUP = "valkey-operator.smoketurner.com"
NAME = GROUP
DEFAULT = "the default there"
T = TypeVar("T")
EXPORTER_RESOURCES = {
    "requests.cpu": ("cpuRequest", "50m"),
    "requests.memory": ("memoryRequest", "64Mi"),
    "limits.cpu": ("cpuLimit", "100m"),
    "limits.memory": ("memoryLimit", "128Mi"),
}
RESOURCES = {
    "requests.cpu": "100m",
    "requests.memory": "256Mi",
    "limits.cpu": "1",
    "limits.memory": "1Gi",
}


def convert_cluster(conversion: Conversion) -> None:
    fields = Fields(conversion.document.content.get("spec"))
    block = Block()
    _counts(fields, block)
    _image(fields.part("image"), block)
    _tls(fields.part("tls"), block, conversion)
    _auth(fields.part("auth"), block, conversion)
    _persistence(fields.part("persistence"), block)
    _resources(fields.part("resources"), block)
    _scheduling(fields.part("scheduling"), block, conversion)
    for same in ("labels", "annotations"):
        block.put(same, fields.take(same))
    _read_service(fields, block)
    _exporter(fields, block)
    _replication(fields.part("replication"), block, conversion)
    tell_limit(block, conversion)
    conversion.make("ValkeyCluster", block)
    conversion.lose(fields)


def convert_upgrade(conversion: Conversion) -> None:
    fields = Fields(conversion.document.content.get("spec"))
    block = Block()
    cluster = fields.part("clusterRef")
    block.put("clusterRef.kind", "ValkeyCluster", "it has no other kind there")
    block.put("clusterRef.name", cluster.text("name"))
    namespace = cluster.text("namespace")
    if namespace not in (None, conversion.document.metadata.get("namespace")):
        conversion.cannot("spec.clusterRef.namespace", "an upgrade and its deployment share a namespace here")
    block.put(
        "targetVersion",
        fields.text("targetVersion"),
        "there -alpine was added to the tag; here it is the tag",
    )
    for limit in ("replicationSyncTimeoutSeconds", "podReadyTimeoutSeconds"):
        if fields.take(limit) is not None:
            conversion.cannot(f"spec.{limit}", "an upgrade pauses on trouble here, and has no such limit")
    conversion.make("ValkeyUpgrade", block)
    conversion.lose(fields)


def _or_default(value: T | None, default: T) -> tuple[T, str]:
    return (default, DEFAULT) if value is None else (value, "")


def _counts(fields: Fields, block: Block) -> None:
    masters, replicas = fields.count("masters"), fields.count("replicasPerMaster")
    block.put("shards", *((3, DEFAULT) if masters is None else (masters, "was masters")))
    counted = "here the primary counts too"
    if replicas is None:
        block.put("replicas", 2, f"replicasPerMaster is 1 by default there; {counted}")
    else:
        block.put("replicas", replicas + 1, f"replicasPerMaster was {replicas}; {counted}")


def _image(image: Fields, block: Block) -> None:
    repository, tag = image.text("repository"), image.text("tag")
    name = f"{repository or 'valkey/valkey'}:{tag or '9.1.0-alpine'}"
    block.put("image", name, "" if repository and tag else DEFAULT)
    block.put("imagePullPolicy", image.text("pullPolicy"))
    block.put("imagePullSecrets", [{"name": secret} for secret in image.texts("pullSecrets")] or None)
    if image.flag("allowDowngrade"):
        image.fault("allowDowngrade", "going back is spec.rollback of a ValkeyUpgrade here")


def _tls(tls: Fields, block: Block, conversion: Conversion) -> None:
    issuer = tls.part("issuerRef")
    name = issuer.text("name")
    if name is None:
        conversion.cannot("spec.tls.issuerRef", "it is required there and missing")
        return
    block.put("tls.enabled", True, "it is always on there")
    block.put("tls.issuerRef.name", name)
    block.put("tls.issuerRef.kind", *_or_default(issuer.text("kind"), "ClusterIssuer"))
    block.put("tls.issuerRef.group", issuer.text("group"))
    block.put("tls.clientAuth", "request", "clients need no certificate there")
    for field, usual in (("duration", "2160h"), ("renewBefore", "360h")):
        if tls.text(field) not in (None, usual):
            tls.fault(field, "the issuer's certificates have no such setting here")


def _auth(auth: Fields, block: Block, conversion: Conversion) -> None:
    secret = auth.part("secretRef")
    name = secret.text("name")
    if name is None:
        conversion.cannot("spec.auth.secretRef", "it is required there and missing")
    else:
        key, comment = _or_default(secret.text("key"), "password")
        block.put("auth.password.secret", {"name": name, "key": key}, comment and f"the key is {comment}")
    acl = auth.part("acl")
    enabled, file = acl.flag("enabled"), acl.part("configSecretRef")
    if acl.text("adminUser") not in (None, "default"):
        acl.fault("adminUser", "the operator has a user of its own here")
    file_name, file_key = file.text("name"), file.text("key")
    if file_name is not None:
        block.put("auth.acl.enabled", *_or_default(enabled, False))
        key, comment = _or_default(file_key, "password")
        block.put(
            "auth.acl.configSecretRef", {"name": file_name, "key": key}, comment and f"the key is {comment}"
        )
    elif file_key is not None:
        file.fault("key", "there is no name of the Secret that it is in")
    elif enabled:
        conversion.note("auth.acl is left out: without configSecretRef it had no effect")


def _persistence(persistence: Fields, block: Block) -> None:
    block.put("persistence.enabled", *_or_default(persistence.flag("enabled"), True))
    block.put("persistence.size", *_or_default(persistence.text("size"), "10Gi"))
    block.put("persistence.storageClassName", persistence.text("storageClassName"))
    rdb, aof = persistence.part("rdb"), persistence.part("aof")
    block.put("persistence.rdb.enabled", rdb.flag("enabled"))
    block.put("persistence.rdb.savePolicy", _save_rules(rdb))
    block.put("persistence.aof.enabled", *_or_default(aof.flag("enabled"), True))
    block.put("persistence.aof.fsync", _fsync(aof))


def _fsync(aof: Fields) -> str | None:
    """Unquoted, `no` is false in YAML."""
    if aof.see("fsync") is False:
        aof.take("fsync")
        return "no"
    return aof.text("fsync")


def _save_rules(rdb: Fields) -> list[dict[str, int]] | None:
    """`["900 1", "300 10"]`."""
    rules = rdb.take("saveRules")
    if rules is None:
        return None
    words = [str(rule).split() for rule in rules] if isinstance(rules, list) else [[]]
    points = [[number for word in rule if (number := decimal(word)) is not None] for rule in words]
    if not all(len(rule) == len(point) == 2 for rule, point in zip(words, points, strict=True)):
        rdb.fault("saveRules", "it has to be a list of seconds and changes")
        return None
    return [{"seconds": seconds, "changes": changes} for seconds, changes in points]


def _resources(resources: Fields, block: Block) -> None:
    parts = {"requests": resources.part("requests"), "limits": resources.part("limits")}
    for path, default in RESOURCES.items():
        part, _, name = path.partition(".")
        block.put(f"resources.{path}", *_or_default(parts[part].text(name), default))


def _scheduling(scheduling: Fields, block: Block, conversion: Conversion) -> None:
    spread, topology = scheduling.flag("spreadMasters"), scheduling.text("topologyKey")
    if spread is False:
        left_out = (
            "spreadMasters is left out" if topology is None else "spreadMasters and topologyKey are left out"
        )
        conversion.note(f"{left_out}: here pods spread over hosts where that is possible")
    elif topology not in (None, selectors.HOSTNAME):
        rule = selectors.apart(str(topology), conversion.document.name)
        block.put("affinity.podAntiAffinity", rule, "was scheduling.topologyKey")
    block.put("nodeSelector", scheduling.take("nodeSelector"))
    block.put("tolerations", scheduling.take("tolerations"))


def _read_service(fields: Fields, block: Block) -> None:
    service = fields.part("readService")
    enabled = service.flag("enabled")
    block.put("readService.enabled", enabled, "it leads to replicas only here" if enabled else "")
    if service.text("serviceType") not in (None, "ClusterIP"):
        service.fault("serviceType", "service.type is for all Services of clients here")
    if service.says("annotations"):
        service.fault("annotations", "service.annotations are for all Services of clients here")


def _exporter(fields: Fields, block: Block) -> None:
    exporter = fields.part("metricsExporter")
    for name, value in (
        ("enabled", exporter.flag("enabled")),
        ("image", exporter.text("image")),
        ("port", exporter.count("port")),
    ):
        block.put(f"exporter.{name}", value)
    given = "resources" in exporter
    resources = exporter.part("resources")
    for path, (name, default) in EXPORTER_RESOURCES.items():
        amount = resources.text(name)
        if given:
            block.put(f"exporter.resources.{path}", *_or_default(amount, default))
    if exporter.says("extraEnv"):
        exporter.fault("extraEnv", "the exporter has no variables of yours here")


def _replication(replication: Fields, block: Block, conversion: Conversion) -> None:
    diskless = replication.flag("disklessSync")
    block.put("replication.disklessSync", *_or_default(diskless, False))
    block.put("config.repl-diskless-sync-delay", replication.count("disklessSyncDelay"))
    least = replication.count("minReplicasToWrite")
    if least is None and block.values["replicas"] > 1:
        block.put("replication.minReplicasToWrite", 1, f"{DEFAULT} where there are replicas")
    elif least == 0 and block.values["replicas"] > 1:
        block.put("replication.minReplicasToWrite", 1, "was 0, which is 1 there where there are replicas")
        conversion.note(
            "replication.minReplicasToWrite was 0, which is 1 there where there are replicas, and so it is 1 now: "
            "set it to 0 if a primary shall write without a replica"
        )
    else:
        block.put("replication.minReplicasToWrite", least)
    block.put("replication.minReplicasMaxLag", replication.count("minReplicasMaxLag"))
