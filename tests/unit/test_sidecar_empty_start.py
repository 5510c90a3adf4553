"""A primary that starts without data says so: what was there before is gone."""

from __future__ import annotations

from pathlib import Path

from tests.caches import eventually
from tests.replicas import CONFIG, running

KEPT = CONFIG.replace("appendonly no", "appendonly yes\nappendfsync always")


async def test_only_a_primary_without_data_says_that_it_starts_empty(tmp_path: Path) -> None:
    async with running(tmp_path, config=KEPT) as (primary, replica):
        assert primary.told.count("KIND_STARTED_EMPTY") == 1
        assert "KIND_STARTED_EMPTY" not in replica.told
        primary.process.kill()
        await eventually(lambda: primary.told.count("KIND_SERVER_STARTED") == 2, 20)
        assert primary.told.count("KIND_STARTED_EMPTY") == 1, "its log is on its disk"
