"""Real Kubernetes for tests and people."""
