"""A sidecar as a process of this machine: its folders below one, ports that are free.

python -m tests.sidecar_program FOLDER OPERATOR_ADDRESS
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path

from tests.mtls import ISSUING, material
from tests.pki import NODE, OPERATOR
from tests.unit.test_contract_mtls_reload import mount
from valkey_operator.process import logs, ports
from valkey_operator.render.users import REPLICATION, SIDECAR, users_acl
from valkey_operator.settings.sidecar import SidecarSettings
from valkey_operator.sidecar import main

UID = "uid-1"
CONFIG = 'port 0\nsave ""\nappendonly no\n'
PASSWORD = "secret"  # noqa: S105 - of servers that live for seconds
USERS = users_acl({SIDECAR: PASSWORD, REPLICATION: PASSWORD})


def settings(folder: Path, operator_address: str) -> SidecarSettings:
    return SidecarSettings(
        NODE.namespace, NODE.kind, NODE.deployment, NODE.node, UID, "127.0.0.1",
        operator_address, OPERATOR.namespace, OPERATOR.trust_domain,
        run=folder / "run", data=folder / "data", config=folder / "config",
        users=folder / "users", identity=folder / "identity",
        channel_port=0,
    )  # fmt: skip


def prepare(place: SidecarSettings) -> None:
    """What is mounted into a pod."""
    for folder in (place.run, place.data, place.config, place.users, place.identity):
        folder.mkdir()
    (place.config / "valkey.conf").write_text(CONFIG)
    (place.users / "users.acl").write_text(USERS)
    (place.users / "sidecar-password").write_text(PASSWORD)
    mount(place.identity, "..1", material(ISSUING.node()))


if __name__ == "__main__":
    logs.configure("json", "info")
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(main.run(settings(Path(sys.argv[1]), sys.argv[2]), ports.opened("127.0.0.1", 0)))
