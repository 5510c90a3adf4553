"""What CEL cannot see: the same sentences for the webhook, every reconcile and the command line.

Pure. It looks at the values in force, layers included, and returns everything that is wrong at once.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from cronsim import CronSim, CronSimError
from pydantic import ValidationError

from valkey_operator.api import directives
from valkey_operator.api.group import is_own_key
from valkey_operator.api.layers import APPLIES, pins, said
from valkey_operator.api.model import A_VALIDITY, VALIDITY
from valkey_operator.api.quantity import amount, quantity_bytes, shown
from valkey_operator.api.shared import POD_PORTS

LONGEST_CRON = 100
NO_WRITES = "replication.minReplicasToWrite"
# Refused to who begins; who has it already is looked after, for it serves, or its metrics alone are missing.
LIVED_WITH = (NO_WRITES, "exporter", "exporter.port")
# Of the sidecar; there was a time when people could set it.
NO_FAILOVER = ("cluster-replica-no-failover", "cluster-slave-no-failover")
# What `replication` takes.
MOST_REPLICAS, LONGEST_LAG, LONGEST_NUMBER = 100, 86400, 10
# Where people write keys of their own.
KEYED = ("labels", "annotations", "service.annotations")
# In front of each container's `resources`.
BLOCKS = ("", "sidecar.", "exporter.")
VALIDITY_UNITS = {
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "mo": timedelta(days=30),
    "y": timedelta(days=365),
}


@dataclass(frozen=True)
class Fault:
    """Something wrong: which field, and a sentence that says what is wrong and what to do."""

    field: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.field}: {self.sentence}"


def faults(kind: str, values: Mapping[str, Any]) -> list[Fault]:
    """Everything that is wrong with a deployment's values in force."""
    wrong = list(_rules(kind, values))
    known = {fault.field for fault in wrong}
    checks = [
        _config(values), _amounts(values), _windows(values), _client_auth_user(values), _own_keys(values),
        _exporter_port(values),
    ]  # fmt: skip
    if kind != "Sentinel":  # it keeps no data
        checks += [_maxmemory(values), _enough_replicas(values)]
    wrong += (fault for check in checks for fault in check if fault.field not in known)
    root = "spec.template" if kind == "ValkeyPool" else "spec"
    return [Fault(f"{root}.{fault.field}".rstrip("."), fault.sentence) for fault in wrong]


def unmet(kind: str, values: Mapping[str, Any], required: Mapping[str, str]) -> list[Fault]:
    """What deployments must have and this one has not; `required` tells by whom."""
    root = "spec.template" if kind == "ValkeyPool" else "spec"
    return [
        Fault(f"{root}.{name}", f"the {required[name]} require {what}, and there is none; set {remedy}")
        for name, (is_there, what, remedy) in REQUIRABLE.items()
        if name in required and not is_there(values)
    ]


def moved(values: Mapping[str, Any], pinned: Mapping[str, Any]) -> list[Fault]:
    """What is not as it was at creation. The API server refuses most of it; not what was not said at all then."""
    if not pinned:
        return []
    before = dict(pins(pinned))
    return [
        Fault(
            ".".join(("spec", *path)),
            f"it is {shown(said(value))} and was {shown(said(before.get(path, 'not set')))} at creation; it cannot be "
            "changed: set it back, or make a new deployment and copy the data into it",
        )
        for path, value in pins(values)
        if value != before.get(path) and (path in before or len(path) > 1)
    ]


def _has_tls(values: Mapping[str, Any]) -> bool:
    tls = _part(values, "tls")
    return bool(tls.get("enabled") or tls.get("policyRef"))


def _has_auth(values: Mapping[str, Any]) -> bool:
    auth, acl = _part(values, "auth"), _part(values, "auth.acl")
    has_users = acl.get("enabled") is not False and bool(acl.get("users") or acl.get("configSecretRef"))
    return bool(auth.get("aclRef") or auth.get("password")) or has_users


REQUIRABLE = {
    "tls": (_has_tls, "TLS", "tls.enabled or tls.policyRef"),
    "auth": (_has_auth, "a password or users", "auth.password, auth.acl or auth.aclRef"),
}


def _rules(kind: str, values: Mapping[str, Any]) -> Iterator[Fault]:
    """The rules of the types, which each layer alone may keep and all together break."""
    try:
        APPLIES[kind].model_validate(values)
    except ValidationError as error:
        for part in error.errors():
            yield Fault(".".join(map(shown, part["loc"])), part["msg"].removeprefix("Value error, "))


def _part(values: Any, path: str) -> Mapping[str, Any]:
    """A block of values; nothing where something else stands, which the types refuse."""
    for name in path.split("."):
        values = values.get(name) if isinstance(values, Mapping) else None
    return values if isinstance(values, Mapping) else {}


def wrong_cron(text: str) -> str | None:
    """Why a cron time cannot be, or None. The API server sees only that it has five fields."""
    try:
        next(CronSim(text, datetime(2000, 1, 1, tzinfo=UTC)))
    except CronSimError as error:
        return (
            f"{text} is not a cron time: {str(error).lower()}; write five fields in UTC, such as 0 4 * * 6,0"
        )
    except StopIteration:
        return f"{text} never comes; write a time that does, such as 0 4 * * 6,0"
    return None


def server_version(image: str) -> str | None:
    """Major and minor from an image's tag, None where the tag does not tell."""
    tag = image.partition("@")[0].rpartition(":")[2]
    match = re.match(r"v?([0-9]{1,4})\.([0-9]{1,4})(?![0-9])", tag)
    return f"{match[1]}.{match[2]}" if match and "/" not in tag else None


def _version(values: Mapping[str, Any]) -> str | None:
    image = values.get("image")
    return server_version(image) if isinstance(image, str) else None


def _config(values: Mapping[str, Any]) -> Iterator[Fault]:
    version = _version(values)
    for name, value in _part(values, "config").items():
        sentence = directives.refusal(name, value, version)
        if sentence:
            yield Fault(f"config.{shown(name)}", sentence)


def _amounts(values: Mapping[str, Any]) -> Iterator[Fault]:
    """The form of an amount does not say that anybody can have it."""
    places = [f"{block}resources.{part}" for block in BLOCKS for part in ("requests", "limits")]
    given = {
        f"{place}.{shown(name)}": value for place in places for name, value in _part(values, place).items()
    }
    size = _part(values, "persistence").get("size")
    if size is not None and amount(size) is None:  # of less than nothing a rule tells
        given["persistence.size"] = size
    for field, value in given.items():
        found = amount(value)
        if found is None or found < 0:
            yield Fault(field, f"{shown(value)} is no amount that can be had; write one such as 500m or 10Gi")


def _own_keys(values: Mapping[str, Any]) -> Iterator[Fault]:
    """They would lead a Service to another server, or be put right again and again."""
    for field in KEYED:
        for key in filter(is_own_key, _part(values, field)):
            name = shown(key)
            yield Fault(
                f"{field}.{name}", f"{name} is the operator's own key; take it out, or use a key of your own"
            )


def as_let_through(values: Mapping[str, Any]) -> dict[str, Any]:
    """What versions that did not refuse it have let through, as it is said today; of the rest nothing counts."""
    found = copy.deepcopy(dict(values))
    for field in KEYED:
        part = _part(found, field)
        if isinstance(part, dict):
            for key in [*filter(is_own_key, part)]:
                del part[key]
    _with_todays_directives(found)
    return found


def _with_todays_directives(values: dict[str, Any]) -> None:
    config = values.get("config")
    if not isinstance(config, dict):
        return
    # By a lag of 0 nothing counts, whatever the number is: it comes last.
    for name in sorted(config, key=lambda each: each.endswith("-max-lag")):
        if name in directives.FIELDS:
            _into_field(values, directives.FIELDS[name], config.pop(name))
        elif name in directives.OLD_NAMES:
            config.setdefault(directives.OLD_NAMES[name], config.pop(name))
        elif name in NO_FAILOVER:
            del config[name]
    # Servers do not start with them, and those that run had refused them; what was always the operator's stays refused.
    for name, value in [*config.items()]:
        if not directives.owner_of(name) and directives.refusal(name, value, _version(values)):
            del config[name]


def _into_field(values: dict[str, Any], field: str, value: Any) -> None:
    """A number that the server takes, within what the field takes; by a lag of 0 it counts no replicas at all."""
    block, name = field.split(".")
    text = str(value)
    if not text.isdecimal() or len(text) > LONGEST_NUMBER:
        return
    number = int(text)
    if field == NO_WRITES:
        number = min(number, MOST_REPLICAS)
    elif number == 0:
        name = NO_WRITES.split(".")[1]
    values[block] = {**_part(values, block), name: min(number, LONGEST_LAG)}


def _windows(values: Mapping[str, Any]) -> Iterator[Fault]:
    for block, name in (("update", "window"), ("tls", "restartWindow")):
        text = _part(values, block).get(name)
        sentence = wrong_cron(text) if isinstance(text, str) and len(text) <= LONGEST_CRON else None
        if sentence:
            yield Fault(f"{block}.{name}", sentence)


def _maxmemory(values: Mapping[str, Any]) -> Iterator[Fault]:
    wanted = _part(values, "config").get("maxmemory")
    limit = _part(values, "resources.limits").get("memory")
    size, most = directives.memory_bytes(wanted), quantity_bytes(limit)
    if size is not None and most is not None and size > most:
        yield Fault(
            "config.maxmemory",
            f"maxmemory is {shown(wanted)}, more than the memory limit of {limit}; the server would be killed first: "
            "raise resources.limits.memory or lower it",
        )


def _enough_replicas(values: Mapping[str, Any]) -> Iterator[Fault]:
    wanted, pods = _part(values, "replication").get("minReplicasToWrite"), values.get("replicas")
    if isinstance(wanted, int) and isinstance(pods, int) and 0 < pods <= wanted:
        yield Fault(
            NO_WRITES,
            f"a primary waits for {wanted} replicas before it writes, and replicas: {pods} leaves it {pods - 1} (it "
            f"counts the primary too): no write would ever be accepted; raise replicas to {wanted + 1}, or lower this",
        )


def _client_auth_user(values: Mapping[str, Any]) -> Iterator[Fault]:
    user = _part(values, "tls").get("clientAuthUser")
    version = _version(values)
    if user not in (None, "off") and version is not None and int(version.split(".")[0]) < 9:
        yield Fault(
            "tls.clientAuthUser",
            f"clientAuthUser needs Valkey 9 and the image is {version}; leave it off",
        )


def _exporter_port(values: Mapping[str, Any]) -> Iterator[Fault]:
    port = _part(values, "exporter").get("port")
    if port is not None and port not in POD_PORTS and port == _part(values, "tls").get("port"):
        yield Fault(
            "exporter.port", f"the server listens at {port}, by tls.port; take another one, such as 9121"
        )


def validity_span(validity: str) -> timedelta:
    """`90d` as time; months have 30 days and years 365, because a certificate does not look at calendars."""
    if not re.fullmatch(VALIDITY, validity):
        raise ValueError(f"{shown(validity)!r} is no {A_VALIDITY.removeprefix('a ')}")
    unit = validity.lstrip("0123456789")
    return int(validity.removesuffix(unit)) * VALIDITY_UNITS[unit]
