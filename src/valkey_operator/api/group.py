"""What stands in every apiVersion of ours; apart from the types, which weigh much more."""

from __future__ import annotations

GROUP = "valkey.io"
VERSION = "v1alpha1"
