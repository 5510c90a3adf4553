"""All tests. `tests/unit` is fast and pure; everything else runs on real servers and a real Kubernetes."""
