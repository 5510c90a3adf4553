"""The users that every server has for our own purposes, with the least each needs; and the file that names them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

# Verified on 8.0, 8.1 and 9.1. No channels, and no keys but to send them to another server; whoever may set users and
# configuration could give itself more, which is why its password never leaves the pod and one Secret.
SIDECAR = "valkey-operator-sidecar"
REPLICATION = "valkey-operator-replication"
EXPORTER = "valkey-operator-exporter"
RULES = {
    SIDECAR: (
        "+ping +hello +auth +info +role +wait +waitaof +shutdown +save +bgsave +lastsave +bgrewriteaof "
        "+replicaof +replconf +failover +dbsize +select +client +config +acl +cluster +slowlog +latency +memory "
        "+command +readonly +module|list +eval_ro +script|kill +function|kill +function|dump +function|restore "
        # Key by key slots are moved by the server itself, at this command; it shows nothing of what is in the keys.
        "(+migrate ~*)"
    ),
    REPLICATION: "+psync +sync +replconf +ping",
    EXPORTER: (
        "+info +client|setname +slowlog|get +slowlog|len +latency|latest +latency|histogram +cluster|info"
    ),
}
OPEN_DEFAULT = "user default on nopass ~* &* +@all"
# One MEET of a wrong address merges two clusters, and within a second both have lost data for good.
OPEN_IN_A_CLUSTER = f"{OPEN_DEFAULT} -cluster|meet -cluster|reset"


def secret_name(deployment: str) -> str:
    return f"{deployment}-system-users"


def users_acl(passwords: Mapping[str, str], default: str = OPEN_DEFAULT) -> str:
    """`passwords` by user. The default user is always named: a file without it leaves it wide open."""
    lines = [default]
    lines += [f"user {name} on #{_hash(password)} {RULES[name]}" for name, password in passwords.items()]
    return "\n".join([*lines, ""])


def _hash(password: str) -> str:
    return hashlib.sha256(password.encode()).hexdigest()
