"""The network of a cluster: one namespace for the control plane, one per node, one exchange for all.

    host ── veth ──┐
    exchange ──────┤ switch (bridge in the control plane's namespace): API server, DNS
    node1 … nodeN ─┘    each node: eth0 to the switch, its own bridge for its pods

The exchange is a router that joins the clusters' pods. The host forwards nothing and no namespace has a
default route, so no packet can leave the machine through them.
"""

from __future__ import annotations

import hashlib
import ipaddress
from pathlib import Path

from devcluster.addresses import RANGE, AddressPlan
from devcluster.cgroups import group
from devcluster.command import run
from devcluster.places import Record, state_root
from devcluster.problem import Problem

EXCHANGE = "devcluster-exchange"


def namespace(record: Record, node: int | None = None) -> str:
    return group(record.name) + (f"-node{node}" if node else "")


def link(record: Record) -> str:
    """The name of this cluster's links on the host and in the exchange; 15 letters are the most allowed."""
    return f"dc{hashlib.sha256(record.name.encode()).hexdigest()[:8]}"


def namespace_file(name: str) -> Path:
    return Path("/run/netns") / name


def make(record: Record) -> None:
    """Build the whole network of a cluster. Call it only when none of its namespaces is left."""
    _make_control(record)
    for number in record.node_numbers:
        _make_node(record, number)
    _join_exchange(record)


def is_free(plan: AddressPlan) -> bool:
    """Whether no route on this machine leads to any of the plan's addresses."""
    for line in run("ip", "-4", "-oneline", "route", "show", "table", "all").splitlines():
        words = [word for word in line.split() if word[0].isdigit()]
        if words and ipaddress.ip_network(words[0], strict=False).overlaps(plan.whole):
            return False
    return True


def refuse_foreign(name: str) -> None:
    """A namespace of this name without a record of ours belongs to somebody else: hands off."""
    if namespace_file(group(name)).exists():
        raise Problem(
            f"the name {name} is in use on this machine by a cluster that {state_root()} does not know; take "
            "another --name, or set DEVCLUSTER_STATE to the folder it was made with"
        )


def exists(record: Record) -> bool:
    wanted = [namespace(record), *(namespace(record, number) for number in record.node_numbers)]
    return all(namespace_file(name).exists() for name in wanted)


def remove(record: Record) -> None:
    """Take links and namespaces away; routes go with them."""
    prefix = namespace(record)
    # Links first: the kernel clears a deleted namespace some time later, and the links with it.
    for place in (None, namespace_file(EXCHANGE)):
        is_there = place is None or place.exists()
        if is_there and f" {link(record)}@" in run("ip", "-oneline", "link", "show", inside=place):
            run("ip", "link", "delete", link(record), inside=place)
    for file in sorted(Path("/run/netns").glob(f"{prefix}*")):
        if file.name == prefix or file.name.startswith(f"{prefix}-node"):
            run("ip", "netns", "delete", file.name)
    exchange = namespace_file(EXCHANGE)
    if exchange.exists() and " dc" not in run("ip", "-oneline", "link", "show", inside=exchange):
        run("ip", "netns", "delete", EXCHANGE)


def _batch(lines: list[str], inside: str | None = None) -> None:
    run("ip", "-batch", "-", stdin="\n".join(lines), inside=namespace_file(inside) if inside else None)


def _route_packets(inside: str, *, filter_bridged: bool) -> None:
    bridged = f"net.bridge.bridge-nf-call-iptables={int(filter_bridged)}"
    run("sysctl", "-qw", "net.ipv4.ip_forward=1", bridged, inside=namespace_file(inside))


def _make_control(record: Record) -> None:
    name, plan = namespace(record), record.addresses
    run("ip", "netns", "add", name)
    _batch(
        [
            "link set lo up",
            "link add switch type bridge",
            "link set switch up",
            f"address add {plan.api}/24 dev switch",
            f"address add {plan.dns}/24 dev switch",
            *(f"route add {plan.node_pods(n)} via {plan.node(n)}" for n in record.node_numbers),
            f"route add {RANGE} via {plan.exchange}",
        ],
        inside=name,
    )
    # The switch must not run what nodes say to each other through the packet filter of kube-proxy.
    _route_packets(name, filter_bridged=False)
    _batch([f"link add {link(record)} type veth peer name host netns {name}"])
    _batch(["link set host master switch up"], inside=name)
    _batch(
        [
            f"address add {plan.host}/24 dev {link(record)}",
            f"link set {link(record)} up",
            f"route add {plan.services} via {plan.api}",
            *(f"route add {plan.node_pods(n)} via {plan.node(n)}" for n in record.node_numbers),
        ]
    )


def _make_node(record: Record, number: int) -> None:
    name, plan = namespace(record, number), record.addresses
    run("ip", "netns", "add", name)
    _batch([f"link add eth0 netns {name} type veth peer name node{number} netns {namespace(record)}"])
    _batch([f"link set node{number} master switch up"], inside=namespace(record))
    others = [other for other in record.node_numbers if other != number]
    _batch(
        [
            "link set lo up",
            f"address add {plan.node(number)}/24 dev eth0",
            "link set eth0 up",
            *(f"route add {plan.node_pods(other)} via {plan.node(other)}" for other in others),
            f"route add {RANGE} via {plan.exchange}",
        ],
        inside=name,
    )
    _route_packets(name, filter_bridged=True)


def _join_exchange(record: Record) -> None:
    plan = record.addresses
    if not namespace_file(EXCHANGE).exists():
        run("ip", "netns", "add", EXCHANGE)
        _batch(["link set lo up"], inside=EXCHANGE)
        _route_packets(EXCHANGE, filter_bridged=False)
    _batch(
        [f"link add {link(record)} netns {EXCHANGE} type veth peer name exchange netns {namespace(record)}"]
    )
    _batch(["link set exchange master switch up"], inside=namespace(record))
    _batch(
        [
            f"address add {plan.exchange}/24 dev {link(record)}",
            f"link set {link(record)} up",
            *(f"route add {plan.node_pods(n)} via {plan.node(n)}" for n in record.node_numbers),
        ],
        inside=EXCHANGE,
    )
