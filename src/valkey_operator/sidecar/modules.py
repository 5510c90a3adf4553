"""The modules that the server's image brings along, as valkey-bundle does: its own entry point would load them.

The image is another container's; while its entry point waits at the gate, its files are seen through its process.
"""

from __future__ import annotations

import logging
from pathlib import Path

FOLDER = Path("/usr/lib/valkey")
log = logging.getLogger(__name__)


def found(root: Path) -> tuple[str, ...]:
    """As the server will see them; none where the image has no such folder."""
    folder = root / FOLDER.relative_to("/")
    try:
        names = sorted(file.name for file in folder.iterdir() if file.suffix == ".so")
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except PermissionError as error:
        log.warning("modules of the server's image cannot be seen, none is loaded: %s", error)
        return ()
    return tuple(str(FOLDER / name) for name in names)


def names(listed: object) -> tuple[str, ...]:
    """From the answer to MODULE LIST: for each module its properties, names and values in turn."""
    if not isinstance(listed, list):
        return ()
    pairs = (dict(zip(each[::2], each[1::2], strict=True)) for each in listed)
    return tuple(sorted(str(each.get("name", "")) for each in pairs))
