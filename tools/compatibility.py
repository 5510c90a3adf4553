"""Whether the CRDs still take every object that the last release took.

    uv run python -m tools.compatibility

After a release an API version only gains optional fields. Compared with the CRDs at the newest tag v*; before the
first release there is nothing to compare with, and it says so.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
CRDS = "deploy/crds"
# keyword → whether a change from old to new takes fewer objects
NARROWER: dict[str, Callable[[Any, Any], bool]] = {
    "minimum": lambda old, new: new is not None and (old is None or new > old),
    "minLength": lambda old, new: new is not None and (old is None or new > old),
    "minItems": lambda old, new: new is not None and (old is None or new > old),
    "maximum": lambda old, new: new is not None and (old is None or new < old),
    "maxLength": lambda old, new: new is not None and (old is None or new < old),
    "maxItems": lambda old, new: new is not None and (old is None or new < old),
    "maxProperties": lambda old, new: new is not None and (old is None or new < old),
    "pattern": lambda old, new: new is not None and new != old,
    "enum": lambda old, new: new is not None and (old is None or not set(old) <= set(new)),
    "type": lambda old, new: new != old,
    "x-kubernetes-list-type": lambda old, new: new != old,
    "x-kubernetes-list-map-keys": lambda old, new: new != old,
}


def breaks(old: dict[str, Any], new: dict[str, Any], path: str) -> Iterator[str]:
    """What an object of the old schema could meet in the new one."""
    for keyword, is_narrower in NARROWER.items():
        if is_narrower(old.get(keyword), new.get(keyword)):
            yield f"{path}: {keyword} goes from {old.get(keyword)} to {new.get(keyword)}"
    for name in sorted(set(new.get("required", [])) - set(old.get("required", []))):
        yield f"{path}.{name} becomes required"
    known = {rule["rule"] for rule in old.get("x-kubernetes-validations", [])}
    for rule in new.get("x-kubernetes-validations", []):
        if rule["rule"] not in known:
            yield f"{path}: a new rule, {rule['rule']}"
    for name, part in old.get("properties", {}).items():
        if name in new.get("properties", {}):
            yield from breaks(part, new["properties"][name], f"{path}.{name}")
        else:
            yield f"{path}.{name} is gone"
    for key in ("items", "additionalProperties"):
        if isinstance(old.get(key), dict) and isinstance(new.get(key), dict):
            yield from breaks(old[key], new[key], f"{path}[]")


def _schemas(text: str) -> dict[str, dict[str, Any]]:
    crd = yaml.safe_load(text)
    kind = crd["spec"]["names"]["kind"]
    return {
        f"{kind} {version['name']}": version["schema"]["openAPIV3Schema"]
        for version in crd["spec"]["versions"]
    }


def newest_tag() -> str:
    """The last release, or nothing before the first."""
    return next(iter(_git("tag", "--list", "v*", "--sort=-version:refname").split()), "")


def files_at(tag: str, path: str) -> list[str]:
    """The files at or below a path, as they were in a release."""
    return _git("ls-tree", "-r", "--name-only", tag, path).split()


def text_at(tag: str, file: str) -> str:
    return _git("show", f"{tag}:{file}")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def main() -> None:
    tag = newest_tag()
    if not tag:
        print("no release yet: nothing to compare the CRDs with")
        return
    problems = []
    for file in files_at(tag, f"{CRDS}/"):
        current = ROOT / file
        new = _schemas(current.read_text()) if current.exists() else {}
        for name, old in _schemas(text_at(tag, file)).items():
            problems += list(breaks(old, new[name], name)) if name in new else [f"{name} is gone"]
    if problems:
        sys.exit(f"objects stored with {tag} could be refused:\n" + "\n".join(problems))


if __name__ == "__main__":
    main()
