"""Users as the official operator writes them: lists of commands, keys and channels, and raw words."""

from __future__ import annotations

from typing import Any

from valkey_operator.dialects.block import Block
from valkey_operator.dialects.conversion import Conversion
from valkey_operator.dialects.fields import Fields
from valkey_operator.dialects.passwords import Passwords

HASHES = ("#", "<", "!")
NOTHING = "-@all"


def convert_users(users: list[Fields], block: Block, conversion: Conversion, passwords: Passwords) -> None:
    made = [_user(user, conversion, passwords) for user in users]
    if made:
        block.put("auth.acl.users", made, "was users")


def _user(user: Fields, conversion: Conversion, passwords: Passwords) -> dict[str, Any]:
    name = user.text("name") or ""
    enabled, open_to_all, reset = user.flag("enabled"), user.flag("nopass"), user.flag("resetpass")
    words = ["off"] if enabled is False else []
    secret = user.part("passwordSecret")
    secret_name, keys = secret.text("name"), secret.texts("keys")
    password: dict[str, Any] = {}
    overruled = (
        "resetpass" if reset else "nopass" if open_to_all else "enabled: false" if enabled is False else ""
    )
    if reset and open_to_all:
        conversion.note(f"nopass of the user {name} is left out: with resetpass it had no effect")
    elif open_to_all:
        words.append("nopass")
    if overruled and (secret_name or keys):
        conversion.note(f"passwordSecret of the user {name} is left out: with {overruled} it had no effect")
    elif not overruled:
        password = {
            "name": secret_name or f"{conversion.document.name}-users",
            "key": _key(secret, keys, name),
        }
    words += _rights(user)
    inline, raw = _without_passwords(user)
    words += raw
    if inline and not password:
        password = passwords.keep(name or "user", inline[0])
    elif inline:
        user.fault("permissions", "it holds a password beside passwordSecret; a user has one password here")
    reference = {"passwordSecret": password} if password else {}
    return {"name": name, **reference, "permissions": " ".join(words) or NOTHING}


def _key(secret: Fields, keys: list[str], name: str) -> str:
    """The user's name, unless keys are given; here a user has one."""
    if not keys:
        return name
    for key in keys[1:]:
        secret.fault(
            "keys",
            f"a user has one password here: the key {key} is left out; a ValkeyClusterAcl takes several",
        )
    return keys[0]


def _rights(user: Fields) -> list[str]:
    """In the order in which that operator writes them."""
    keys, channels, commands = user.part("keys"), user.part("channels"), user.part("commands")
    patterns = _words(channels, "patterns", "&")
    return [
        *_words(keys, "readWrite", "~"),
        *_words(keys, "readOnly", "%R~"),
        *_words(keys, "writeOnly", "%W~"),
        *(["resetchannels"] if patterns else []),
        *patterns,
        *_words(commands, "allow", "+"),
        *_words(commands, "deny", "-"),
    ]


def _words(fields: Fields, key: str, mark: str) -> list[str]:
    return [f"{mark}{word}" for word in fields.texts(key)]


def _without_passwords(user: Fields) -> tuple[list[str], list[str]]:
    """Passwords in the raw words, and the other words."""
    words = (user.text("permissions") or "").split()
    if any(word.startswith(HASHES) for word in words):
        user.fault("permissions", "a hashed password cannot be carried over: put the password into a Secret")
    inline = [word[1:] for word in words if word.startswith(">")]
    if len(inline) > 1:
        user.fault(
            "permissions", "a user has one password here: the first is kept; a ValkeyClusterAcl takes several"
        )
    return inline, [word for word in words if not word.startswith((">", *HASHES))]
