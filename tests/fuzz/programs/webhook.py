"""The webhook alone, which allows everything."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.fuzz.programs import Place, start
from valkey_operator.contract import mtls
from valkey_operator.kube import webhook
from valkey_operator.kube.webhook import ALLOWED, Certificate, Review, Verdict


async def allow(_: Review) -> Verdict:
    return ALLOWED


async def serve(place: Place) -> None:
    mtls.save_memory()
    certificate = Certificate(Path(place["identity"], "tls.crt"), Path(place["identity"], "tls.key"))
    async with webhook.opened({"/check": allow}, certificate, port=place["ports"]["channel"]):
        await asyncio.Event().wait()


if __name__ == "__main__":
    start(serve)
