"""What CEL cannot see: the same sentences for the webhook, every reconcile and the command line.

Pure. It looks at the values in force, layers included, and returns everything that is wrong at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from cronsim import CronSim, CronSimError
from pydantic import ValidationError

from valkey_operator.api import directives
from valkey_operator.api.layers import APPLIES

QUANTITY = re.compile(r"(\d+(?:\.\d+)?(?:[eE]\d+)?)([kMGTPE]i?|Ki|m)?")
UNITS: dict[str, Decimal | int] = {
    "": 1,
    "m": Decimal("0.001"),
    **{letter: 1000**power for power, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", 1)},
}
VALIDITY = re.compile(r"(\d+)(m|h|d|mo|y)")
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
    checks = [_rules(kind, values), _config(values), _windows(values), _client_auth_user(values)]
    if kind != "Sentinel":  # it keeps no data
        checks.append(_maxmemory(values))
    root = "spec.template" if kind == "ValkeyPool" else "spec"
    return [Fault(f"{root}.{fault.field}".rstrip("."), fault.sentence) for check in checks for fault in check]


def _rules(kind: str, values: Mapping[str, Any]) -> Iterator[Fault]:
    """The rules of the types, which each layer alone may keep and all together break."""
    try:
        APPLIES[kind].model_validate(values)
    except ValidationError as error:
        for part in error.errors():
            yield Fault(".".join(map(str, part["loc"])), part["msg"].removeprefix("Value error, "))


def wrong_cron(text: str) -> str | None:
    """Why a cron time cannot be, or None. The API server sees only that it has five fields."""
    try:
        CronSim(text, datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        return (
            f"{text} is not a cron time: {str(error).lower()}; write five fields in UTC, such as 0 4 * * 6,0"
        )
    return None


def server_version(image: str) -> str | None:
    """Major and minor from an image's tag, None where the tag does not tell."""
    tag = image.partition("@")[0].rpartition(":")[2]
    match = re.match(r"v?(\d+)\.(\d+)", tag)
    return f"{match[1]}.{match[2]}" if match and "/" not in tag else None


def _config(values: Mapping[str, Any]) -> Iterator[Fault]:
    version = server_version(str(values.get("image", "")))
    for name, value in (values.get("config") or {}).items():
        sentence = directives.refusal(name, value, version)
        if sentence:
            yield Fault(f"config.{name}", sentence)


def _windows(values: Mapping[str, Any]) -> Iterator[Fault]:
    for block, name in (("update", "window"), ("tls", "restartWindow")):
        text = (values.get(block) or {}).get(name)
        sentence = wrong_cron(text) if text is not None else None
        if sentence:
            yield Fault(f"{block}.{name}", sentence)


def _maxmemory(values: Mapping[str, Any]) -> Iterator[Fault]:
    wanted = (values.get("config") or {}).get("maxmemory")
    limit = ((values.get("resources") or {}).get("limits") or {}).get("memory")
    size, most = directives.memory_bytes(wanted), quantity_bytes(limit)
    if size is not None and most is not None and size > most:
        yield Fault(
            "config.maxmemory",
            f"maxmemory is {wanted}, more than the memory limit of {limit}; the server would be killed first: "
            "raise resources.limits.memory or lower it",
        )


def _client_auth_user(values: Mapping[str, Any]) -> Iterator[Fault]:
    user = (values.get("tls") or {}).get("clientAuthUser")
    version = server_version(str(values.get("image", "")))
    if user not in (None, "off") and version is not None and int(version.split(".")[0]) < 9:
        yield Fault(
            "tls.clientAuthUser",
            f"clientAuthUser needs Valkey 9 and the image is {version}; leave it off",
        )


def amount(quantity: Any) -> Decimal | None:
    """As the core API writes it, such as 500m or 1Gi; None for nonsense."""
    match = QUANTITY.fullmatch(str(quantity))
    with suppress(ArithmeticError):  # more than any number that means something
        return Decimal(match[1]) * UNITS[match[2] or ""] if match else None
    return None


def quantity_bytes(quantity: Any) -> int | None:
    """An amount in whole bytes; None for nonsense."""
    found = amount(quantity)
    return None if found is None else int(found)


def validity_span(validity: str) -> timedelta:
    """`90d` as time; months have 30 days and years 365, because a certificate does not look at calendars."""
    match = VALIDITY.fullmatch(validity)
    if not match:
        raise ValueError(f"{validity!r} is no validity: write a number and m, h, d, mo or y, such as 90d")
    return int(match[1]) * VALIDITY_UNITS[match[2]]
