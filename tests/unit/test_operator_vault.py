"""Keys of Secrets that were written are kept no longer than they are needed."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from valkey_operator.kube.objects import Key
from valkey_operator.operator.vault import Vault

LEAF, ROOT = Key("prod", "cache-0-mtls"), Key("prod", "valkey-root-ca")
SECRET = {"tls.key": b"a secret"}


class Secrets(dict[Key, Any]):
    """The cache, and what writes into it."""

    @property
    def store(self) -> Secrets:
        return self

    def on_change(self, _: object) -> None:
        pass

    async def apply(self, _: object, wanted: dict[str, Any], **_how: object) -> None:
        name = wanted["metadata"]
        self[Key(name["namespace"], name["name"])] = SimpleNamespace(
            metadata=SimpleNamespace(uid="u", resource_version="1")
        )


async def test_what_was_written_is_looked_at_without_being_read_and_then_gone() -> None:
    secrets: Any = Secrets()
    nobody: Any = None  # to read from
    vault = Vault(nobody, secrets, secrets)
    for key in (LEAF, ROOT):
        if key == LEAF:
            await vault.authority(key, (), datetime.now(UTC))
        await vault.write({"namespace": key.namespace, "name": key.name}, SECRET)
    assert b"a secret" in str(vars(vault)).encode()
    await vault.authority(LEAF, (), datetime.now(UTC))
    assert b"a secret" not in str(vars(vault)).encode()
