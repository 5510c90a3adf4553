"""The operator in the cluster, and a namespace for a test, as the end-to-end tests have them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import Place, operator, place, rights

__all__ = ["operator", "place", "rights"]


@pytest.fixture(autouse=True)
def calm(request: pytest.FixtureRequest) -> Iterator[None]:
    """Where figures are taken, nothing of one test goes on in the next: the network follows one change a second."""
    is_wanted = "CHAOS_FIGURES" in os.environ and "place" in request.fixturenames
    used: Place | None = request.getfixturevalue("place") if is_wanted else None
    yield
    if used is not None:
        used.kubectl("delete", "valkeys,valkeyclusters", "--all")
        used.eventually(lambda: not used.kubectl("get", "pods", "--output=name"))
