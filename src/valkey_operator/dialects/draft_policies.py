"""The early drafts' other kinds: TLS policies, the root CA, and what the operator makes by itself."""

from __future__ import annotations

import re
from typing import Any

from valkey_operator.dialects.block import Block
from valkey_operator.dialects.conversion import Conversion
from valkey_operator.dialects.fields import Fields

WINDOW = re.compile(r"(\S+(?:\s+\S+){4})\s*(.*)", re.DOTALL)
TEXTS = ("tlsSecretName", "tlsCiphers", "tlsProtocols")
NUMBERS_AND_FLAGS = (
    "disableNonTlsPort", "tlsPort", "tlsAuthClients", "tlsCluster", "tlsReplication", "tlsDhParamsFile",
)  # fmt: skip
ROTATION = {"autoRotate": True, "renewBeforeDays": 30}


def convert_tls(conversion: Conversion) -> None:
    fields = Fields(conversion.document.content.get("spec"))
    block = Block()
    block.put("externalCerts", _reference(fields, "externalCerts"))
    internal = fields.take("internalCerts")
    if block.has("externalCerts") and internal is not None:
        conversion.note("internalCerts is left out: with externalCerts it was ignored")
    else:
        block.put("internalCerts", internal)
    for name in TEXTS:
        block.put(name, fields.text(name))
    for name in NUMBERS_AND_FLAGS:
        block.put(name, fields.take(name))
    block.put("tlsRefreshRestartWindow", *_window(fields, conversion))
    conversion.make("ValkeyClusterTls", block)
    conversion.lose(fields)


def _window(fields: Fields, conversion: Conversion) -> tuple[str | None, str]:
    """Five fields of cron; what stood behind them was meant for people."""
    text = fields.text("tlsRefreshRestartWindow")
    found = WINDOW.fullmatch(text) if text else None
    if not found:
        return text, ""
    if found[2]:
        conversion.note(f"tlsRefreshRestartWindow is {found[1]}; behind it stood: {found[2]}")
    return " ".join(found[1].split()), found[2] and f"behind it stood: {found[2]}"


def convert_ca(conversion: Conversion) -> None:
    fields = Fields(conversion.document.content.get("spec"))
    block = Block()
    for same in ("description", "secretType"):
        block.put(same, fields.text(same))
    certificate, key = _reference(fields, "caCertSecretRef"), _reference(fields, "caKeySecretRef")
    block.put("caCertSecretRef", certificate)
    if key and key != certificate:
        place = (certificate or {}).get("name", "it")
        conversion.cannot(
            "spec.caKeySecretRef",
            f"certificate and key are in one Secret here: put the key as tls.key into {place}, beside tls.crt",
        )
    block.put("validForDays", fields.count("validForDays"))
    conversion.make("ValkeyCA", block)
    conversion.lose(fields)


def _reference(fields: Fields, key: str) -> dict[str, Any] | None:
    """A name in the drafts, `{name: …}` here."""
    if isinstance(fields.see(key), dict):
        part: dict[str, Any] = fields.take(key)
        return part
    name = fields.text(key)
    return {"name": name} if name else None


def convert_own(conversion: Conversion) -> None:
    """What the operator makes by itself is not made from a manifest."""
    conversion.note("left out: the operator makes it by itself")
    if conversion.document.kind != "ValkeyCertificateBundle":
        return
    spec = conversion.document.content.get("spec")
    policy = spec.get("rotationPolicy") if isinstance(spec, dict) else None
    for name, value in (policy if isinstance(policy, dict) else {}).items():
        if value != ROTATION.get(name, value):
            conversion.cannot(f"spec.rotationPolicy.{name}", f"here it is {str(ROTATION[name]).lower()}")


def convert_status(conversion: Conversion) -> None:
    conversion.note("left out: what it held is in the status of the deployment itself")
