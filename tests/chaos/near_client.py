"""A client on the very machine of a server: it writes there for some seconds, and prints when it was acknowledged.

    python -m tests.chaos.near_client ADDRESS SECONDS [TAG]

Prints one JSON object: the moments of all acknowledged writes, on the clock that all processes of a machine share; the
keys of which a replica has confirmed by WAIT that it has them; and the last word of the server to one that was refused.
In a cluster the tag says to which shard the keys belong.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from tests.chaos.wire import Access, Address, ErrorReply, NotSent, Unanswered, Wire

PACE = 0.02
WAIT_MILLISECONDS = 50
ACCESS = Access(connect_limit=0.5, command_limit=0.5)


async def write(address: Address, seconds: float, tag: str) -> dict[str, object]:
    ends, acknowledged, refused, number = time.monotonic() + seconds, [], "", 0
    confirmed: list[str] = []
    while time.monotonic() < ends:
        try:
            async with await Wire.open(address, ACCESS) as wire:
                while time.monotonic() < ends:
                    number += 1
                    key = f"{{{tag}}}:{number}"
                    await wire.call("SET", key, number)
                    acknowledged.append(time.monotonic())
                    if await wire.call("WAIT", 1, WAIT_MILLISECONDS):
                        confirmed.append(key)
                    await asyncio.sleep(PACE)
        except (NotSent, Unanswered, ErrorReply) as why:
            refused = str(why)
            await asyncio.sleep(PACE)
    return {"acknowledged": acknowledged, "confirmed": confirmed, "refused": refused}


if __name__ == "__main__":
    host, length, *tags = sys.argv[1:]
    print(json.dumps(asyncio.run(write(Address(host, 6379), float(length), *(tags or ["near"])))))
