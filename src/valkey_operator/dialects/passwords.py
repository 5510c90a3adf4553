"""Passwords that stood in a manifest: collected for one Secret, and named by its keys from then on."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

KEY = re.compile(r"[-._a-zA-Z0-9]{1,200}")


@dataclass
class Passwords:
    """What goes into the Secret `name`."""

    name: str
    found: dict[str, str] = field(default_factory=dict)

    def keep(self, owner: str, password: str) -> dict[str, str]:
        """Where it is from now on, as `{name, key}`. A key is named after its owner where that can be a key."""
        key = owner if KEY.fullmatch(owner) and owner not in self.found else f"password-{len(self.found)}"
        while key in self.found:
            key += "-"
        self.found[key] = password
        return {"name": self.name, "key": key}
