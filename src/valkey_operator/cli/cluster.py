"""Reads custom resources through the user's own kubectl, with the user's own context and rights."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from valkey_operator.api.kinds import GROUP
from valkey_operator.cli.command import Problem


def get(kind: str, name: str, namespace: str | None) -> dict[str, Any] | None:
    """One object, or None when there is none of that name."""
    place = [f"--namespace={namespace}"] if namespace else []
    found = _kubectl("get", f"{kind.lower()}.{GROUP}", name, "--ignore-not-found", "--output=json", *place)
    parsed: dict[str, Any] | None = json.loads(found) if found.strip() else None
    return parsed


def _kubectl(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["kubectl", *arguments], capture_output=True, text=True, timeout=30, check=False
        )
    except FileNotFoundError:
        raise Problem("kubectl is not on the PATH") from None
    except subprocess.TimeoutExpired:
        raise Problem("the cluster does not answer within 30 s; look at `kubectl cluster-info`") from None
    if done.returncode:
        raise Problem(
            done.stderr.strip().removeprefix("Error from server: ") or "kubectl failed and said nothing"
        )
    return done.stdout
