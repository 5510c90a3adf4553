"""The whole sidecar, beside no server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.fuzz.programs import Place, start
from valkey_operator.process import ports
from valkey_operator.settings.sidecar import SidecarSettings
from valkey_operator.sidecar import main


async def serve(place: Place) -> None:
    folder = Path(place["folder"])
    settings = replace(
        SidecarSettings.from_environment(place["environment"]),
        run=folder / "run",
        data=folder / "data",
        config=folder / "config",
        users=folder / "users",
        identity=folder / "identity",
        channel_port=place["ports"]["channel"],
    )
    await main.run(settings, ports.opened("", place["ports"]["probes"]))


if __name__ == "__main__":
    start(serve)
