"""The desired Kubernetes objects and Valkey files from a spec: pure functions, the same in gives the same out."""
