"""The operator in the cluster, and a namespace for a test, as the end-to-end tests have them."""

from tests.e2e.conftest import operator, place, rights

__all__ = ["operator", "place", "rights"]
