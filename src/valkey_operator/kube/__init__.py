"""The runtime: the only code that talks to the Kubernetes API.

`client` asks, `informer` remembers, `queue` and `controller` decide when to look again, `writer` writes what
differs, `lease` says who may write. Nothing here knows Valkey.
"""
