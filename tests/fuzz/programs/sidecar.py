"""The whole sidecar, beside no server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.fuzz.programs import Place, start
from valkey_operator.settings.sidecar import SidecarSettings
from valkey_operator.sidecar import main


async def serve(place: Place) -> None:
    folder, ports = Path(place["folder"]), place["ports"]
    settings = replace(
        SidecarSettings.from_environment(place["environment"]),
        run=folder / "run",
        data=folder / "data",
        config=folder / "config",
        users=folder / "users",
        identity=folder / "identity",
        channel_port=ports["channel"],
        probe_port=ports["probes"],
    )
    await main.run(settings)


if __name__ == "__main__":
    start(serve)
