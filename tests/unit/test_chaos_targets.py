"""Where keys live, and what a target learns from CLUSTER SLOTS and MOVED."""

import pytest

from tests.chaos.cluster_target import moved_to
from tests.chaos.pods import manifest, pod_addresses
from tests.chaos.slots import SLOTS, slot_of, spread_tags
from tests.chaos.targets import Shard, shards_from_slots
from tests.chaos.wire import Address, Reply

ASKED = Address("10.0.0.9", 6379)


@pytest.mark.parametrize(
    ("key", "slot"),
    [("foo", 12182), ("123456789", 12739), ("x{foo}y", 12182), ("{foo}{bar}", 12182), ("{}foo", 9500)],
)
def test_slots_are_those_of_the_server(key: str, slot: int) -> None:
    assert slot_of(key) == slot


@pytest.mark.parametrize("number", [1, 3, 16, 64])
def test_tags_reach_every_stripe_of_the_slots(number: int) -> None:
    stripes = [slot_of(f"{{{tag}}}") * number // SLOTS for tag in spread_tags(number)]
    assert stripes == list(range(number))


def a_node(endpoint: str | None, port: int = 6379, *metadata: str) -> Reply:
    return [endpoint, port, "id", list(metadata)]


def test_ranges_of_the_same_primary_are_one_shard() -> None:
    reply: Reply = [
        [10, 16383, a_node("10.0.0.1"), a_node("10.0.0.3"), a_node("10.0.0.2")],
        [0, 4, a_node("10.0.0.1"), a_node("10.0.0.3"), a_node("10.0.0.2")],
        [5, 9, a_node("10.0.0.4")],
    ]
    replicas = (Address("10.0.0.2", 6379), Address("10.0.0.3", 6379))
    assert shards_from_slots(reply, ASKED) == [
        Shard("0-4 and 1 more ranges", ((0, 4), (10, 16383)), Address("10.0.0.1", 6379), replicas),
        Shard("5-9", ((5, 9),), Address("10.0.0.4", 6379), ()),
    ]


@pytest.mark.parametrize(
    ("node", "host"),
    [
        pytest.param(a_node("10.0.0.1", 6379, "hostname", "n0.svc"), "10.0.0.1", id="by IP"),
        pytest.param(a_node("n0.svc", 6379, "ip", "10.0.0.1"), "10.0.0.1", id="by hostname"),
        pytest.param(a_node(None, 6379), "10.0.0.9", id="unknown endpoint"),
        pytest.param(a_node("", 6379), "10.0.0.9", id="a node that does not know its own address"),
    ],
)
def test_a_node_is_reached_by_its_ip_or_else_where_it_was_asked(node: Reply, host: str) -> None:
    (shard,) = shards_from_slots([[0, 16383, node]], ASKED)
    assert shard.primary == Address(host, 6379)


@pytest.mark.parametrize(
    ("reason", "place"),
    [
        ("MOVED 1 10.0.0.1:7000", Address("10.0.0.1", 7000)),
        ("MOVED 1 fd00::1:7000", Address("fd00::1", 7000)),
        ("MOVED 1 :7000", Address("10.0.0.9", 7000)),
    ],
)
def test_moved_names_the_node_to_ask_first(reason: str, place: Address) -> None:
    assert moved_to(reason, ASKED) == place


def test_pods_without_an_address_are_left_out_and_the_others_come_by_name() -> None:
    listed = """{"items": [
        {"metadata": {"name": "b"}, "status": {"podIP": "10.0.0.2"}},
        {"metadata": {"name": "c"}, "status": {}},
        {"metadata": {"name": "a"}, "status": {"podIP": "10.0.0.1"}}]}"""
    assert pod_addresses(listed) == [Address("10.0.0.1", 6379), Address("10.0.0.2", 6379)]


def test_bare_pods_keep_nothing_and_may_do_nothing() -> None:
    text = manifest("g", 2, ("--save", ""))
    assert text.count('"emptyDir"') == 2
    assert "persistentVolumeClaim" not in text
    for demand in ('"runAsNonRoot": true', '"allowPrivilegeEscalation": false', '"drop": ["ALL"]'):
        assert text.count(demand) == 2
