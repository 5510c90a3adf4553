"""How the operator's process goes on when what it runs has ended."""

from __future__ import annotations

import pytest

from valkey_operator.operator import main
from valkey_operator.process import anew, heap, logs
from valkey_operator.settings.operator import OperatorSettings


@pytest.mark.parametrize(("is_over", "begun"), [(True, []), (False, ["anew"])])
def test_it_begins_anew_when_the_lead_was_lost_and_ends_when_it_was_told_to(
    monkeypatch: pytest.MonkeyPatch, *, is_over: bool, begun: list[str]
) -> None:
    told: list[str] = []

    async def run(_settings: OperatorSettings) -> bool:
        return is_over

    settings = OperatorSettings("valkey-system", "one", "image")
    monkeypatch.setattr(OperatorSettings, "from_environment", lambda: settings)
    monkeypatch.setattr(main, "run", run)
    # What they do to a process lasts.
    monkeypatch.setattr(logs, "configure", lambda *_: None)
    monkeypatch.setattr(heap, "keep_what_is_imported", lambda: None)
    monkeypatch.setattr(anew, "begin", lambda: told.append("anew"))
    main.main()
    assert told == begun
