"""Runs in a pod: valkey-py's cluster client writes and reads through everything that happens meanwhile.

    python -m client SERVICE SECONDS

Prints one JSON object: how many keys were written, those that are not as written, the primaries it came to, and the
errors that its own retries did not hide.
"""

import json
import sys
import time

from valkey.cluster import ValkeyCluster
from valkey.exceptions import ValkeyError


def main() -> None:
    service, seconds = sys.argv[1], float(sys.argv[2])
    client = ValkeyCluster(host=service, port=6379)
    ends, written, errors = time.monotonic() + seconds, 0, []
    while time.monotonic() < ends:
        try:
            client.set(f"key:{written}", written)
        except ValkeyError as error:
            errors.append(repr(error))
            time.sleep(0.05)
            continue
        written += 1
    wrong = [number for number in range(written) if client.get(f"key:{number}") != str(number).encode()]
    primaries = sorted(node.host for node in client.get_primaries())  # type: ignore[no-untyped-call]
    print(json.dumps({"written": written, "wrong": wrong, "primaries": primaries, "errors": errors}))


if __name__ == "__main__":
    main()
