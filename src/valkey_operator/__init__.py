"""The Valkey operator: the operator, the sidecar, the web UI's back end and the kubectl plugin."""

__version__ = "0.1.0.dev0"
