"""Which error replies promise that a write did not run."""

import pytest

from tests.chaos.outcomes import REFUSALS, Outcome, outcome_of_error


@pytest.mark.parametrize("code", sorted(REFUSALS))
def test_a_refusal_is_known_by_its_code(code: str) -> None:
    assert outcome_of_error(f"{code} with some words") is Outcome.FAIL
    assert outcome_of_error(code) is Outcome.FAIL


@pytest.mark.parametrize("text", ["ERR unknown command", "UNBLOCKED force unblock", "READONLYISH", "", "oom"])
def test_what_is_not_known_to_be_a_refusal_is_indeterminate(text: str) -> None:
    assert outcome_of_error(text) is Outcome.INFO
