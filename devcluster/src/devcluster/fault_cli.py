"""`devcluster fault …`: the faults by hand."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from devcluster.cluster import EmbeddedCluster
from devcluster.faults import Fault, Faults
from devcluster.faults.orders import STOPPABLE
from devcluster.faults.packets import DIRECTIONS
from devcluster.problem import Problem
from devcluster.quantity import parse_bytes

Order = Callable[[Faults, argparse.Namespace], Fault | str]


def add(parser: argparse.ArgumentParser, find: Callable[[argparse.Namespace], EmbeddedCluster]) -> None:
    faults = parser.add_subparsers(required=True, metavar="FAULT")

    def fault(name: str, text: str, order: Order) -> argparse.ArgumentParser:
        made = faults.add_parser(name, help=text, description=text)
        made.set_defaults(do=lambda options: _carry_out(find(options).faults, order, options))
        return made

    kill = fault("kill", "SIGKILL the server process of a pod", _kill)
    whole = fault("kill-container", "SIGKILL a whole container of a pod", _kill_container)
    pause = fault("pause", "SIGSTOP the server process of a pod", lambda f, o: f.pause(o.pod, o.container))
    for one in (kill, whole, pause):
        one.add_argument("pod", help="NAMESPACE/NAME, or NAME in `default`")
        one.add_argument("--container", "-c", help="default: valkey, else the only one")
    stop_node = fault("stop-node", "cut a node's power", lambda f, o: f.stop_node(o.node))
    stop_node.add_argument("node")
    _add_packets(fault)
    fill = fault("fill", "fill the volume of a claim", lambda f, o: f.fill(o.claim, parse_bytes(o.leave)))
    fill.add_argument("claim", help="NAMESPACE/NAME, or NAME in `default`")
    fill.add_argument("--leave", default="0", help="how much stays free, such as 4Mi; default 0")
    for name, text, order in (
        ("stop", "end the API server or etcd until healed", lambda f, o: f.stop(o.part)),
        ("freeze", "SIGSTOP the API server or etcd", lambda f, o: f.freeze(o.part)),
        ("restart", "end the API server or etcd and start it again", _restart),
    ):
        fault(name, text, order).add_argument("part", choices=list(STOPPABLE))
    fault("compact", "make etcd forget old revisions: resumed watches get 410", _compact)
    fault("list", "the faults under way", lambda f, _: "\n".join(map(str, f.active())) or "none")
    heal = fault("heal", "undo faults, all of them by default", _heal)
    heal.add_argument("fault", nargs="*", help="such as f1, as `list` shows them")


def _add_packets(fault: Callable[[str, str, Order], argparse.ArgumentParser]) -> None:
    cut = fault("cut", "drop all packets of a node or pod", lambda f, o: f.cut(o.target, o.direction, o.peer))
    loss = fault("loss", "drop some packets", lambda f, o: f.lose(o.target, o.percent, o.direction, o.peer))
    delay = fault("delay", "delay packets (needs netem)", lambda f, o: f.delay(o.target, o.milliseconds))
    for one in (cut, loss, delay):
        one.add_argument("target", help="a node, or a pod as NAMESPACE/NAME")
    loss.add_argument("percent", type=float)
    delay.add_argument("milliseconds", type=int)
    for one in (cut, loss):
        one.add_argument("--direction", choices=DIRECTIONS, default="both")
        one.add_argument("--peer", help="only packets of this node, pod, address range, or `api`")


def _carry_out(faults: Faults, order: Order, options: argparse.Namespace) -> int:
    print(order(faults, options))
    return 0


def _kill_container(faults: Faults, options: argparse.Namespace) -> str:
    pid = faults.kill_container(options.pod, options.container)
    return f"killed the container of {options.pod} whose first process was {pid}"


def _kill(faults: Faults, options: argparse.Namespace) -> str:
    return f"killed process {faults.kill(options.pod, options.container)} of {options.pod}"


def _restart(faults: Faults, options: argparse.Namespace) -> str:
    faults.restart(options.part)
    return f"restarted {options.part}"


def _compact(faults: Faults, _: argparse.Namespace) -> str:
    return f"compacted at revision {faults.compact()}"


def _heal(faults: Faults, options: argparse.Namespace) -> str:
    active = {fault.id: fault for fault in faults.active()}
    unknown = [name for name in options.fault if name not in active]
    if unknown:
        raise Problem(f"there is no fault {unknown[0]}; under way are {', '.join(active) or 'none'}")
    if options.fault:
        healed = [active[name] for name in options.fault]
        for fault in healed:
            faults.heal(fault)
    else:
        healed = faults.heal_all()
    return "\n".join(f"healed {fault}" for fault in healed) or "nothing to heal"
