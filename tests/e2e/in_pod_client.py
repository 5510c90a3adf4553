"""Runs in a pod: a cluster client that others wrote sets and reads keys through everything that happens meanwhile.

    python client.py LIBRARY SERVICE SECONDS

Prints one JSON object: how many keys were written, those that are not as written, and the errors that the library's own
retries did not hide.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from importlib import import_module

Calls = tuple[Callable[[str, str], object], Callable[[str], bytes | None], type[Exception]]


def valkey_py(service: str) -> Calls:
    library = import_module("valkey.cluster")
    client = library.ValkeyCluster(host=service, port=6379)
    return client.set, client.get, library.ValkeyError


def valkey_glide(service: str) -> Calls:
    library, runner = import_module("glide"), asyncio.Runner()
    address = library.NodeAddress(service, 6379)
    wanted = library.GlideClusterClientConfiguration([address], request_timeout=2000)
    client = runner.run(library.GlideClusterClient.create(wanted))
    return (
        lambda key, value: runner.run(client.set(key, value)),
        lambda key: runner.run(client.get(key)),
        library.GlideError,
    )


LIBRARIES = {"valkey": valkey_py, "valkey-glide": valkey_glide}


def main() -> None:
    library, service, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    put, get, refused = LIBRARIES[library](service)
    ends, written, errors = time.monotonic() + seconds, 0, []
    while time.monotonic() < ends:
        try:
            put(f"key:{written}", str(written))
        except refused as error:
            errors.append(repr(error))
            time.sleep(0.05)
            continue
        written += 1
    wrong = [number for number in range(written) if get(f"key:{number}") != str(number).encode()]
    print(json.dumps({"written": written, "wrong": wrong, "errors": errors}))


if __name__ == "__main__":
    main()
