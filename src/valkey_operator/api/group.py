"""What stands in every apiVersion of ours; apart from the types, which weigh much more."""

from __future__ import annotations

GROUP = "valkey.io"
VERSION = "v1alpha1"
# Of all our kinds, and of nobody else's: that is how ours are told from another operator's of the same names.
CATEGORY = "valkey-all"


def is_own_key(key: str) -> bool:
    """Whether a label or annotation is the operator's to set: its selectors and its memory are kept under such keys."""
    prefix, slash, _ = key.partition("/")
    return bool(slash) and (prefix == GROUP or prefix.endswith(f".{GROUP}"))
