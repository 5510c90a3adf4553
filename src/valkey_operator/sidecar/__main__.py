"""The sidecar's process. It listens first: the kubelet asks as soon as the server's container runs, and whomever it
does not find it asks again only a second later. Who is there and takes a moment to answer is Ready by then."""

from __future__ import annotations

from valkey_operator.process import ports

PROBES = 8080
probes = ports.opened("", PROBES)

from valkey_operator.sidecar.main import main  # noqa: E402 - what takes longer comes after that

main(probes)
