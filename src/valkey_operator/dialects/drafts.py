"""The early drafts of this API: deployments that count masters and the replicas of each."""

from __future__ import annotations

from typing import Any

from valkey_operator.dialects import selectors
from valkey_operator.dialects.block import Block
from valkey_operator.dialects.conversion import Conversion
from valkey_operator.dialects.fields import Fields, is_count
from valkey_operator.dialects.passwords import Passwords

NAME = "an early draft"
# What the group of Sentinels has in common with the servers it watches.
SENTINELS_TOO = (
    "image", "imagePullSecrets", "labels", "tolerations", "securityContext", "tls", "sidecar",
)  # fmt: skip
EVERYTHING = "+@all ~* &*"
BUS_PASSWORD = "cluster-password"  # noqa: S105 - the name of a key


def convert_cluster(conversion: Conversion) -> None:
    """`ValkeyCluster`: what `clusterType` says decides what it is here."""
    fields = Fields(conversion.document.content.get("spec"))
    kind = fields.text("clusterType") or "cluster"
    if kind == "sentinel":
        _with_sentinels(conversion, fields)
    else:
        if kind != "cluster":
            conversion.cannot("spec.clusterType", "it is cluster or sentinel; taken as cluster")
        _sharded(conversion, fields)
    conversion.lose(fields)


def convert_sentinel(conversion: Conversion) -> None:
    """`ValkeySentinel`: replicated, with a Sentinel group."""
    fields = Fields(conversion.document.content.get("spec"))
    _with_sentinels(conversion, fields)
    conversion.lose(fields)


def convert_standalone(conversion: Conversion) -> None:
    """`ValkeyStandalone`: one server."""
    fields = Fields(conversion.document.content.get("spec"))
    for count, only in (("masterCount", 1), ("replicasPerMaster", 0)):
        if fields.count(count) not in (None, only):
            conversion.cannot(f"spec.{count}", "a ValkeyStandalone is one server")
    block = Block()
    block.put("replicas", 1, "a ValkeyStandalone is one server")
    _server(conversion, fields, block)
    _volume(fields, block, conversion)
    conversion.make("Valkey", block)
    conversion.lose(fields)


def convert_defaults(conversion: Conversion) -> None:
    """`ValkeyOperatorDefaults`, also as a draft misspelt it; counts are no defaults here."""
    fields = Fields(conversion.document.content.get("spec"))
    for count in ("masterCount", "replicasPerMaster", "clusterType"):
        if fields.take(count) is not None:
            conversion.cannot(f"spec.{count}", "defaults hold no counts and no kind here")
    block = Block()
    _server(conversion, fields, block)
    _persistence(fields, block)
    made = conversion.make("ValkeyClusterDefaults", block, name="defaults")
    if conversion.document.name != "defaults":
        made.head.append(f"The name was {conversion.document.name}: here defaults count only as defaults.")
    conversion.lose(fields)


def _sharded(conversion: Conversion, fields: Fields) -> None:
    block = Block()
    _shards(fields, block, conversion, 3)
    block.put("replicas", *_replicas(fields, conversion))
    _server(conversion, fields, block)
    _volume(fields, block, conversion)
    conversion.make("ValkeyCluster", block)


def _with_sentinels(conversion: Conversion, fields: Fields) -> None:
    """One master is a `Valkey`, several are a `ValkeyPool`; both point at a Sentinel group that is made beside."""
    name = conversion.document.name
    masters = fields.count("masterCount")
    if masters is None:
        conversion.note("masterCount is not given, and the draft names no default: it is one Valkey")
    server = Block()
    replicas, comment = _replicas(fields, conversion)
    server.put("replicas", replicas, comment)
    _server(conversion, fields, server)
    _volume(fields, server, conversion)
    if replicas >= 2:
        server.put("sentinel.name", f"{name}-sentinel", "the Sentinel that is made beside it")
    else:
        conversion.cannot("spec.clusterType", "a Sentinel needs a replica to promote: left out")
    if masters is None or masters == 1:
        conversion.make("Valkey", server)
    else:
        pool = Block()
        pool.put("shards", masters, "was masterCount")
        pool.graft("template", server)
        conversion.make("ValkeyPool", pool)
    if replicas >= 2:
        _sentinels(conversion, server, f"{name}-sentinel")


def _sentinels(conversion: Conversion, server: Block, name: str) -> None:
    block = Block()
    block.put("replicas", 3, "the draft does not say how many Sentinels")
    for shared in SENTINELS_TOO:
        block.put(shared, server.values.get(shared))
    made = conversion.make("Sentinel", block, name=name)
    made.head.append(
        "It watches the servers of the draft's one object; Sentinels are a kind of their own here."
    )


def _shards(fields: Fields, block: Block, conversion: Conversion, least: int) -> None:
    masters = fields.count("masterCount")
    if masters is None:
        block.put("shards", least, "masterCount was not given, and the draft names no default")
        conversion.note(f"masterCount is not given, and the draft names no default: shards is {least}")
    elif masters < least:
        block.put("shards", least, f"masterCount was {masters}; a cluster has at least {least} shards here")
        conversion.cannot("spec.masterCount", f"it is {masters}; a ValkeyCluster has at least {least} shards")
    else:
        block.put("shards", masters, "was masterCount")


def _replicas(fields: Fields, conversion: Conversion) -> tuple[int, str]:
    replicas = fields.count("replicasPerMaster")
    if replicas is None:
        conversion.note("replicasPerMaster is not given, and the draft names no default: replicas is 2")
        return 2, "replicasPerMaster was not given, and the draft names no default; counts the primary too"
    return replicas + 1, f"replicasPerMaster was {replicas}; here the primary counts too"


def _server(conversion: Conversion, fields: Fields, block: Block) -> None:
    """Everything that has nothing to do with counts and volumes."""
    pull_secrets: list[str] = []
    block.put("image", _image(fields.part("valkeyImage"), pull_secrets))
    _tls(fields, block)
    _users(conversion, fields, block)
    _placement(fields, block, conversion)
    for same in ("tolerations", "nodeSelector", "resources", "labels", "annotations", "securityContext"):
        block.put(same, fields.take(same))
    mtls = fields.part("operatorMtls")
    block.put("sidecar.mtls.validity", mtls.text("clientCertValidity"), "was operatorMtls")
    block.put("sidecar.mtls.rotateBeforePercent", mtls.count("rotateBeforePercent"))
    sidecar = _image(fields.part("sidecarImage"), pull_secrets)
    block.put("sidecar.image", sidecar, "check: it must be the sidecar of this operator's own version")
    exporter = fields.part("exporter")
    block.put("exporter.enabled", exporter.flag("enabled"))
    block.put("exporter.image", _image(exporter.part("image"), pull_secrets))
    block.put("exporter.port", exporter.take("port"))
    block.put("exporter.resources", exporter.take("resources"))
    if pull_secrets:
        unique = [{"name": secret} for secret in dict.fromkeys(pull_secrets)]
        block.put("imagePullSecrets", unique, "of all the images")


def _image(image: Fields, pull_secrets: list[str]) -> str | None:
    name, tag = image.text("name"), image.text("tag")
    pull_secrets += image.references("imagePullSecrets")
    if name is None:
        if tag is not None:
            image.fault("tag", "there is no name to which it belongs")
        return None
    return f"{name}:{tag}" if tag else name


def _tls(fields: Fields, block: Block) -> None:
    """The name of a policy, or a block."""
    if isinstance(fields.see("tls"), str):
        block.put("tls.policyRef.name", fields.text("tls"), "was tls")
    else:
        block.put("tls.enabled", fields.part("tls").flag("enabled"))


def _users(conversion: Conversion, fields: Fields, block: Block) -> None:
    """The name of a `ValkeyClusterAcl`, or users with their passwords."""
    passwords = Passwords(conversion.free_secret())
    if isinstance(fields.see("acl"), str):
        block.put("auth.aclRef.name", fields.text("acl"), "was acl")
    else:
        acl = fields.part("acl")
        enabled = acl.flag("enabled")
        users = [user for found in acl.parts("users") for user in _user(found, block, conversion, passwords)]
        if users:
            block.put("auth.acl.enabled", enabled)
            block.put("auth.acl.users", users, block.comments.get("auth.acl.users", "was acl.users"))
        elif enabled and not block.has("auth"):
            acl.fault("enabled", "there are no users")
        elif enabled is False and block.has("auth"):
            acl.fault("enabled", "the password of the user without a name is asked for all the same")
    _cluster_password(conversion, fields, block, passwords)
    if passwords.found:
        conversion.make_secret(passwords.name, passwords.found)


def _user(user: Fields, block: Block, conversion: Conversion, passwords: Passwords) -> list[dict[str, Any]]:
    """A user without a name is the legacy mode: a password for everybody."""
    name, password = user.text("name"), user.text("password")
    if name:
        secret = {"passwordSecret": passwords.keep(name, password)} if password else {}
        permissions = user.text("acl")
        if permissions is None:
            block.comments["auth.acl.users"] = f"where it was not said what a user may do: {EVERYTHING}"
            conversion.note(
                f"it is not said what the user {name} may do: {EVERYTHING}; narrow it in auth.acl"
            )
        return [{"name": name, **secret, "permissions": permissions or EVERYTHING}]
    if password and not block.has("auth.password"):
        block.put("auth.password.secret", passwords.keep("default", password), "of the user without a name")
    elif password:
        conversion.cannot(f"{user.path}.password", "there is another user without a name")
    return []


def _cluster_password(conversion: Conversion, fields: Fields, block: Block, passwords: Passwords) -> None:
    """Between servers the operator has a user of its own. Without users it was everybody's password."""
    password = fields.text("clusterPassword")
    if not password:
        return
    secret = passwords.keep(BUS_PASSWORD, password)
    if block.has("auth"):
        conversion.note(
            f"clusterPassword is kept in the Secret {passwords.name}, and nothing refers to it: servers log in to "
            "each other with a user that the operator makes"
        )
    else:
        block.put("auth.password.secret", secret, "was clusterPassword; there are no users beside it")


def _placement(fields: Fields, block: Block, conversion: Conversion) -> None:
    name = conversion.document.name
    for rules in ("nodeAffinity", "podAffinity"):
        block.put(f"affinity.{rules}", *_chosen(fields.take(rules), name, rules))
    away = fields.see("podAntiAffinity")
    if isinstance(away, dict) and "enabled" in away:
        enabled = fields.part("podAntiAffinity").flag("enabled")
        if enabled is False:
            conversion.note("podAntiAffinity is left out: here pods spread over hosts where that is possible")
        elif enabled:
            rule = selectors.apart(selectors.HOSTNAME, name)
            block.put(
                "affinity.podAntiAffinity", rule, "was enabled: true; hosts are kept apart where possible"
            )
    else:
        chosen = _chosen(fields.take("podAntiAffinity"), name, "podAntiAffinity")
        block.put("affinity.podAntiAffinity", *chosen)


def _chosen(rules: Any, name: str, kind: str) -> tuple[Any, str]:
    if kind == "nodeAffinity":
        return rules, ""
    renewed, changed = selectors.rewrite(rules, "app", name)
    return renewed, selectors.REWRITTEN if changed else ""


def _volume(fields: Fields, block: Block, conversion: Conversion) -> None:
    """Whether there is a volume cannot be changed later, so it is written out."""
    if "pvc" in fields:
        block.put("persistence.enabled", True, "was pvc")
    else:
        comment = "the draft does not say: false for a cache; it cannot change later"
        block.put("persistence.enabled", True, comment)
        block.put("persistence.size", "10Gi", "the draft does not say")
        conversion.note("the draft does not say whether data is kept: every server has a volume of 10Gi")
    _persistence(fields, block)


def _persistence(fields: Fields, block: Block) -> None:
    pvc = fields.part("pvc")
    block.put("persistence.size", pvc.text("storageSize"))
    block.put("persistence.storageClassName", pvc.text("storageClassName"))
    backup = fields.part("backup")
    database, aof = backup.part("database"), backup.part("aof")
    block.put("persistence.rdb.enabled", database.flag("enabled"), "was backup.database")
    block.put("persistence.rdb.savePolicy", save_points(database, "save"))
    block.put("persistence.aof.enabled", aof.flag("enabled"), "was backup.aof")
    block.put("persistence.aof.fsync", _fsync(aof))
    block.put("persistence.aof.rewritePercentage", aof.count("autoAofRewritePercentage"))
    block.put("persistence.aof.rewriteMinSize", aof.text("autoAofRewriteMinSize"))


def _fsync(aof: Fields) -> str | None:
    """Unquoted, `no` is false in YAML."""
    if aof.see("appendfsync") is False:
        aof.take("appendfsync")
        return "no"
    return aof.text("appendfsync")


def save_points(fields: Fields, key: str) -> list[dict[str, int]] | None:
    """`60 100 900 1`: pairs of seconds and changes."""
    text = fields.text(key)
    if text is None:
        return None
    words = text.split()
    if len(words) % 2 or not all(map(is_count, words)):
        fields.fault(key, "it has to be pairs of seconds and changes")
        return None
    numbers = [int(word) for word in words]
    return [
        {"seconds": seconds, "changes": changes}
        for seconds, changes in zip(numbers[::2], numbers[1::2], strict=True)
    ]
