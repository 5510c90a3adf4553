"""Slots are moved by what is in them: a new shard gets its share of the keys, wherever these lie."""

from __future__ import annotations

import json
from itertools import count, islice

from tests.chaos.slots import slot_of
from tests.e2e.conftest import Place
from tests.e2e.test_one_node import SPEC

# All keys are in a few slots at the beginning of what the first shard owns.
NARROW, TAGS, KEYS = 1000, 20, 500
FILL = "for i = 1, tonumber(ARGV[1]) do server.call('SET', KEYS[1] .. i, string.rep('x', 200)) end"


def tags() -> list[str]:
    found = (tag for tag in (f"{{t{number}}}" for number in count()) if slot_of(tag) < NARROW)
    return list(islice(found, TAGS))


def test_a_new_shard_gets_its_share_of_keys_that_lie_in_few_slots(place: Place) -> None:
    place.apply("ValkeyCluster", "grid", {**SPEC, "shards": 3, "replicas": 1})
    ready = ("wait", "--for=jsonpath={.status.state}=Ready", "valkeycluster/grid", "--timeout=120s")
    place.kubectl(*ready)
    for tag in tags():
        place.valkey("grid-0-0-0", "EVAL", FILL, "1", tag, str(KEYS))
    wish = json.dumps({"spec": {"shards": 4}})
    place.kubectl("patch", "valkeycluster", "grid", "--type=merge", f"--patch={wish}")
    place.eventually(lambda: place.get("valkeycluster", "grid")["status"].get("readyShards") == 4, 120)
    place.kubectl(*ready)
    there = int(place.valkey("grid-3-0-0", "DBSIZE"))
    print(f"{there} of {TAGS * KEYS} keys are in the new shard")
    assert TAGS * KEYS / 8 <= there <= TAGS * KEYS / 2
