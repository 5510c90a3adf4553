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
import os
from pathlib import Path

from devcluster.addresses import RANGE, AddressPlan
from devcluster.command import run
from devcluster.places import Record

EXCHANGE = "devcluster-exchange"


def namespace(record: Record, node: int | None = None) -> str:
    return f"{record.group}.{f'node{node}' if node else 'control'}"


def link(record: Record) -> str:
    """The name of this cluster's links on the host and in the exchange; 15 letters are the most allowed."""
    return f"dc{hashlib.sha256(record.group.encode()).hexdigest()[:8]}"


def namespace_file(name: str) -> Path:
    return Path("/run/netns") / name


def make(record: Record) -> None:
    """Build the whole network of a cluster. Call it only when none of its namespaces is left."""
    _make_control(record)
    for number in record.node_numbers:
        _make_node(record, number)
    _join_exchange(record)
    _marker(record).touch()


def is_free(plan: AddressPlan) -> bool:
    """Whether no route on this machine leads to any of the plan's addresses."""
    for line in run("ip", "-4", "-oneline", "route", "show", "table", "all").splitlines():
        words = [word for word in line.split() if word[0].isdigit()]
        if words and ipaddress.ip_network(words[0], strict=False).overlaps(plan.whole):
            return False
    return True


def exists(record: Record) -> bool:
    """Whether the network is there as a whole; after a reboot only the names of namespaces may be left."""
    wanted = [namespace(record), *(namespace(record, number) for number in record.node_numbers), EXCHANGE]
    return _marker(record).exists() and all(_is_alive(namespace_file(name)) for name in wanted)


def _is_alive(file: Path) -> bool:
    """A namespace is a mount on its name; the bare name may outlive it."""
    return os.path.ismount(file)


def has_remains(record: Record) -> bool:
    return any(Path("/run/netns").glob(f"{record.group}.*"))


def _marker(record: Record) -> Path:
    """Written last, so that a network cut short in the making is not taken for a whole one."""
    return record.folder / "network-is-whole"


def remove(record: Record) -> None:
    """Take links and namespaces away; routes go with them."""
    _marker(record).unlink(missing_ok=True)
    # Links first: the kernel clears a deleted namespace some time later, and the links with it.
    for place in (None, namespace_file(EXCHANGE)):
        is_there = place is None or _is_alive(place)
        if is_there and f" {link(record)}@" in run("ip", "-oneline", "link", "show", inside=place):
            run("ip", "link", "delete", link(record), inside=place)
    for file in sorted(Path("/run/netns").glob(f"{record.group}.*")):
        _delete_namespace(file)
    exchange = namespace_file(EXCHANGE)
    if exchange.exists() and not (_is_alive(exchange) and _has_links(exchange)):
        _delete_namespace(exchange)


def _delete_namespace(file: Path) -> None:
    if _is_alive(file):
        run("ip", "netns", "delete", file.name)
    else:
        file.unlink()


def _has_links(exchange: Path) -> bool:
    return " dc" in run("ip", "-oneline", "link", "show", inside=exchange)


def _batch(lines: list[str], inside: str | None = None) -> None:
    run("ip", "-batch", "-", stdin="\n".join(lines), inside=namespace_file(inside) if inside else None)


def _make_namespace(name: str, *, filter_bridged: bool) -> None:
    """A namespace that routes. It must never tell a sender of a shorter way: that would bypass kube-proxy."""
    file = namespace_file(name)
    if not _is_alive(file):
        file.unlink(missing_ok=True)
        run("ip", "netns", "add", name)
    _batch(["link set lo up"], inside=name)
    settings = {
        "net.ipv4.ip_forward": 1,
        "net.ipv4.conf.all.send_redirects": 0,
        "net.ipv4.conf.default.send_redirects": 0,
        "net.bridge.bridge-nf-call-iptables": int(filter_bridged),
    }
    run("sysctl", "-qw", *(f"{key}={value}" for key, value in settings.items()), inside=file)


def _make_control(record: Record) -> None:
    name, plan = namespace(record), record.addresses
    # The switch must not run what nodes say to each other through the packet filter of kube-proxy.
    _make_namespace(name, filter_bridged=False)
    _batch(
        [
            "link add switch type bridge",
            "link set switch up",
            f"address add {plan.api}/24 dev switch",
            f"address add {plan.dns}/24 dev switch",
            *(f"route add {plan.node_pods(n)} via {plan.node(n)}" for n in record.node_numbers),
            f"route add {RANGE} via {plan.exchange}",
        ],
        inside=name,
    )
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
    _make_namespace(name, filter_bridged=True)
    _batch([f"link add eth0 netns {name} type veth peer name node{number} netns {namespace(record)}"])
    _batch([f"link set node{number} master switch up"], inside=namespace(record))
    others = [other for other in record.node_numbers if other != number]
    _batch(
        [
            f"address add {plan.node(number)}/24 dev eth0",
            "link set eth0 up",
            *(f"route add {plan.node_pods(other)} via {plan.node(other)}" for other in others),
            f"route add {RANGE} via {plan.exchange}",
        ],
        inside=name,
    )


def _join_exchange(record: Record) -> None:
    plan = record.addresses
    _make_namespace(EXCHANGE, filter_bridged=False)
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
