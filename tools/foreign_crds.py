"""Ends with a sentence when a cluster has another operator's CRDs under our names; before ours are applied with force.

kubectl get crds --output=json | uv run python -m tools.foreign_crds
"""

from __future__ import annotations

import json
import sys

from valkey_operator.api.foreign import refusal
from valkey_operator.api.group import GROUP
from valkey_operator.api.kinds import KINDS

OURS = {f"{kind.plural_name}.{GROUP}" for kind in KINDS}


def main() -> None:
    found = json.load(sys.stdin)["items"]
    sys.exit(
        refusal(
            {
                crd["metadata"]["name"]: crd["spec"]["names"].get("categories", [])
                for crd in found
                if crd["metadata"]["name"] in OURS
            }
        )
    )


if __name__ == "__main__":
    main()
