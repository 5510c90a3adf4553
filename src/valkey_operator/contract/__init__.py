"""What operator and sidecars say to each other, and the identities under which they say it.

`v1/` is generated from `proto/` by `make generate`. Only the standard library and protobuf are used here: the
sidecar imports it.
"""
