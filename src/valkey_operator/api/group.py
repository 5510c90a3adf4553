"""What stands in every apiVersion of ours; apart from the types, which weigh much more."""

from __future__ import annotations

GROUP = "valkey.io"
VERSION = "v1alpha1"
# Of all our kinds, and of nobody else's: that is how ours are told from another operator's of the same names.
CATEGORY = "valkey-all"
