"""A deployment as people look at it: in words, within 80 columns. Pure: what was found goes in, text comes out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from valkey_operator.api.reasons import ConditionType
from valkey_operator.api.status import State
from valkey_operator.cli.paint import Paint, ago, plain, until, wrapped
from valkey_operator.decide.sight import SMALL_LAG
from valkey_operator.decide.slots import size_text

Found = dict[str, Any]

EVENTS_SHOWN = 5
LONGEST_SLOTS = 18
WELL = (State.READY, State.SUSPENDED)
COLOURS: dict[str, str] = {
    State.READY: "green",
    State.DEGRADED: "red",
    State.FAILED: "red",
}
# True is bad news; of all others False is. What the state says anyway is not said twice.
BAD_WHEN_TRUE = (ConditionType.PAUSED, ConditionType.WARNING)
SAID_BY_STATE = (ConditionType.READY, ConditionType.PROGRESSING, ConditionType.DEGRADED)


@dataclass(frozen=True)
class Look:
    """All that a user may see of one deployment."""

    valkey: Found
    nodes: Sequence[Found] = ()
    binding: Found | None = None
    # None: they may not be read.
    events: Sequence[Found] | None = ()

    @property
    def status(self) -> Found:
        return self.valkey.get("status") or {}

    @property
    def is_cluster(self) -> bool:
        return bool(self.valkey.get("kind") == "ValkeyCluster")

    @property
    def is_seen(self) -> bool:
        """The operator has looked at the spec as it is now."""
        return bool(self.status.get("observedGeneration") == self.valkey["metadata"].get("generation"))

    @property
    def is_well(self) -> bool:
        return self.is_seen and self.status.get("state") in WELL

    def as_json(self) -> Found:
        return {
            "well": self.is_well,
            "valkey": self.valkey,
            "nodes": list(self.nodes),
            "binding": self.binding,
            "events": None if self.events is None else _last(self.events),
        }


def shown(look: Look, now: datetime, paint: Paint) -> str:
    parts = (
        list(_headline(look, paint)),
        list(_facts(look, now)),
        list(_table(look, paint)),
        [*_doing(look, now), *_next(look), *_switchover(look), *_failover(look, now)],
        list(_events(look, now, paint)),
    )
    return "\n\n".join("\n".join(part) for part in parts if part)


def _headline(look: Look, paint: Paint) -> Iterator[str]:
    metadata, status = look.valkey["metadata"], look.status
    state = status.get("state") or "not looked at yet"
    reason = f" ({status['reason']})" if status.get("reason") else ""
    kind = look.valkey.get("kind", "Valkey")
    name = paint("bold", f"{kind} {metadata['namespace']}/{metadata['name']}")
    yield f"{name}: {paint(COLOURS.get(state, 'yellow'), state)}{reason}"
    yield from wrapped("", status.get("message") or "no operator has looked at it", column=2)
    if status and not look.is_seen:
        yield from wrapped("!", "the operator has not seen the last change of the spec yet", column=2)
    for condition in _bad(status):
        yield from wrapped("!", f"{condition['type']}: {condition['message']}", column=2)


def _bad(status: Found) -> Iterator[Found]:
    for condition in status.get("conditions") or ():
        bad = "True" if condition["type"] in BAD_WHEN_TRUE else "False"
        is_news = condition["message"] not in status.get("message", "")
        if condition["type"] not in SAID_BY_STATE and condition["status"] == bad and is_news:
            yield condition


def _facts(look: Look, now: datetime) -> Iterator[str]:
    metadata, status = look.valkey["metadata"], look.status
    if status.get("primary"):
        epoch = f", epoch {status['primaryEpoch']}" if "primaryEpoch" in status else ""
        yield from wrapped("Primary", f"{status['primary']}{epoch}", 2)
    if look.is_cluster:
        yield from wrapped("Shards", _shards(look), 2)
    ready, wanted = status.get("readyReplicas", 0), _wanted(look)
    yield from wrapped("Pods", f"{ready} ready, {wanted} wanted", 2)
    yield from wrapped("Clients", f"{metadata['name']}.{metadata['namespace']}.svc:6379", 2)
    endpoint = (status.get("exporter") or {}).get("metricsEndpoint")
    if endpoint:
        yield from wrapped("Metrics", endpoint, 2)
    if status.get("disruption"):
        yield from wrapped("Disruptions", status["disruption"].get("message", ""), 2)
    if look.nodes:
        yield from wrapped("Version", _versions(look.nodes), 2)
        yield from wrapped("Config", _config(look.nodes), 2)
        yield from wrapped("Certificates", _certificates(look, now), 2)


def _wanted(look: Look) -> int:
    spec = look.valkey["spec"]
    return int(
        spec.get("shards", 3) * spec.get("replicas", 3) if look.is_cluster else spec.get("replicas", 1)
    )


def _shards(look: Look) -> str:
    status, wanted = look.status, look.valkey["spec"].get("shards", 3)
    missing = status.get("slotsUnassigned", 0)
    slots = f"{missing} slots have no primary" if missing else "every slot has a primary"
    return f"{status.get('readyShards', 0)} ready, {wanted} wanted; {slots}"


def _versions(nodes: Sequence[Found]) -> str:
    versions = Counter(_status(node).get("valkeyVersion") or "unknown" for node in nodes)
    if len(versions) < 2:
        return next(iter(versions), "unknown")
    return ", ".join(f"{version} on {count}" for version, count in sorted(versions.items()))


def _config(nodes: Sequence[Found]) -> str:
    prints = Counter(_status(node).get("configFingerprint") or "" for node in nodes)
    common = prints.most_common(1)[0][0]
    others = [_name(node) for node in nodes if _status(node).get("configFingerprint", "") != common]
    said = f"not the same on {', '.join(others)}" if others else "the same on every server"
    return "; ".join([said if common else "not known yet", *_restarts(nodes)])


def _restarts(nodes: Sequence[Found]) -> Iterator[str]:
    waiting: dict[str, list[str]] = {}
    for node in nodes:
        if _status(node).get("needsRestart"):
            waiting.setdefault(_status(node).get("needsRestartReason", ""), []).append(_name(node))
    for reason, names in waiting.items():
        yield f"to be restarted: {', '.join(names)}" + (f" ({reason})" if reason else "")


def _certificates(look: Look, now: datetime) -> str:
    status = (look.binding or {}).get("status") or {}
    active = status.get("active") or []
    if not active:
        return "none yet"
    known = {each["thumbprint"] for each in active}
    shown_ones = {_name(node): _status(node).get("certificateFingerprint") for node in look.nodes}
    behind = [name for name, thumbprint in shown_ones.items() if thumbprint and thumbprint not in known]
    said = [_expiry(purpose, active, now) for purpose in sorted({each["purpose"] for each in active})]
    said += [f"not yet in use on {', '.join(behind)}"] if behind else []
    ready = next((each for each in status.get("conditions") or () if each["type"] == "Ready"), None)
    return "; ".join([*said, *([ready["message"]] if ready and ready["status"] == "False" else [])])


def _expiry(purpose: str, active: Sequence[Found], now: datetime) -> str:
    first = min(each["expiresAt"] for each in active if each["purpose"] == purpose)
    ends = "valid, the first expires" if datetime.fromisoformat(first) >= now else "EXPIRED"
    return f"{purpose}: {ends} {until(first, now)} ({first[:10]})"


def _table(look: Look, paint: Paint) -> Iterator[str]:
    if not look.nodes:
        return
    titles, rows = _sharded(look) if look.is_cluster else _replicated(look)
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    yield paint("dim", _line(titles, widths))
    for node, row in zip(look.nodes, rows, strict=True):
        line, is_ready = _line(row, widths), row[titles.index("READY")] == "yes"
        yield line if is_ready else paint("red", line)
        if not is_ready and _status(node).get("message"):
            yield from wrapped("", _status(node)["message"], column=6)


def _replicated(look: Look) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    said = {each["name"]: each for each in look.status.get("nodes") or ()}
    titles = ("NODE", "ROLE", "READY", "FOLLOWS", "LAG", "PROMOTABLE", "VERSION")
    return titles, [_row(look, node, said.get(_name(node), {})) for node in look.nodes]


def _sharded(look: Look) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Memory and slots beside the primary that has them; zones only where a shard has one."""
    shards = look.status.get("shards") or ()
    owners: dict[str, Found] = {each.get("primary", ""): each for each in shards}
    behind = {name for each in shards for name in each.get("behind") or ()}
    zones = {name: zone for each in shards for name, zone in _zones(each)}
    titles = ("NODE", "ROLE", "READY", "LAG", "VERSION", "MEMORY", *(("ZONE",) if zones else ()), "SLOTS")
    rows: list[tuple[str, ...]] = []
    for node in look.nodes:
        name, status = _name(node), _status(node)
        own = owners.get(name)
        role = "primary" if own is not None else status.get("observedRole") or "unknown"
        rows.append(
            (
                name,
                role,
                "yes" if status.get("ready") else "no",
                _lag(look, name, is_linked=name not in behind) if role == "replica" else "-",
                status.get("valkeyVersion") or "-",
                _memory(own or {}),
                *((zones.get(name, "-"),) if zones else ()),
                _owned((own or {}).get("slots", "")),
            )
        )
    return titles, rows


def _zones(shard: Found) -> Iterator[tuple[str, str]]:
    """Of its nodes, where they are known."""
    names = (shard.get("primary", ""), *(shard.get("replicas") or ()))
    found = (shard.get("zone", ""), *(shard.get("replicaZones") or ()))
    yield from ((name, zone) for name, zone in zip(names, found, strict=False) if zone)


def _lag(look: Look, name: str, *, is_linked: bool) -> str:
    """Below the first step of what is told nobody says how much it is."""
    told = {each["name"]: each["bytes"] for each in look.status.get("lagging") or ()}
    if not is_linked:
        return "not in sync"
    mebibytes = told.get(name, SMALL_LAG) >> 20
    shown_size = f"{mebibytes >> 10} GiB" if mebibytes >= 1024 else f"{mebibytes} MiB"
    return f">{shown_size}" if name in told else f"<{shown_size}"


def _memory(shard: Found) -> str:
    """Of maxmemory, where there is one."""
    used, most = shard.get("usedBytes"), shard.get("maxBytes")
    if not used:
        return "-"
    return f"{used * 100 // most}%" if most else size_text(used)


def _owned(slots: str) -> str:
    """As ranges; where they are too long for a line, how many slots and ranges there are."""
    ranges = [part.partition("-") for part in slots.split(",") if part]
    if len(slots) <= LONGEST_SLOTS:
        return slots or "-"
    count = sum(int(last or first) - int(first) + 1 for first, _, last in ranges)
    return f"{count} in {len(ranges)} ranges"


def _row(look: Look, node: Found, said: Found) -> tuple[str, ...]:
    name, status = _name(node), _status(node)
    role = said.get("role") or status.get("observedRole") or "unknown"
    promotable = look.status.get("promotable") or ()
    ready = {_name(each) for each in look.nodes if _status(each).get("ready")}
    return (
        name,
        role,
        "yes" if status.get("ready") else "no",
        status.get("observedReplicaOf") or "-",
        _lag(look, name, is_linked={name, status.get("observedReplicaOf")} <= ready)
        if role == "replica"
        else "-",
        ("yes" if name in promotable else "no") if role == "replica" else "-",
        status.get("valkeyVersion") or "-",
    )


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()


def _doing(look: Look, now: datetime) -> Iterator[str]:
    operation = look.status.get("operation")
    if not operation:
        return
    parts = [f"{operation['kind']}: {operation['step']}" if operation.get("step") else operation["kind"]]
    if operation.get("total"):
        parts.append(f"{operation.get('done', 0)} of {operation['total']} done")
    if operation.get("startedAt"):
        parts.append(f"began {ago(operation['startedAt'], now)}")
    if operation.get("eta"):
        parts.append(f"probably done {until(operation['eta'], now)}")
    yield from wrapped("Doing", ", ".join(parts), 2)


def _next(look: Look) -> Iterator[str]:
    for number, step in enumerate(look.status.get("next") or ()):
        why = f": {step['why']}" if step.get("why") else ""
        held = f" (held back by {step['refusedBy']})" if step.get("refusedBy") else ""
        yield from wrapped("" if number else "Next", f"{step['action']}{held}{why}", 2)


def _switchover(look: Look) -> Iterator[str]:
    """One that is done is the last failover."""
    last = look.status.get("lastSwitchover")
    if last and last["result"] != "Done":
        words = {"UnderWay": "under way", "Refused": "refused", "Failed": "failed"}[last["result"]]
        message = f": {last['message']}" if last.get("message") else ""
        yield from wrapped("Switchover", f"{words}{message}", 2)


def _failover(look: Look, now: datetime) -> Iterator[str]:
    last = look.status.get("lastFailover")
    if last:
        yield from wrapped("Last failover", failover(last, now), 2)


def failover(last: Found, now: datetime) -> str:
    """When, from whom to whom, and what it cost."""
    kind = "planned" if last["planned"] else "not planned"
    epoch = f", epoch {last['epoch']}" if "epoch" in last else ""
    text = f"{ago(last['at'], now)}, {last['from']} to {last['to']}, {kind} ({last['reason']}){epoch}"
    if "writePauseMs" in last:
        text += f", writes paused for {last['writePauseMs']} ms"
    return f"{text}, {_loss(last.get('lossBound'))}"


def _loss(bound: Found | None) -> str:
    if bound is None or bound.get("isUnknown"):
        return "it is not known what was lost"
    units = {"bytes": "bytes", "seconds": "s"}
    lost = [f"{bound[name]} {unit}" for name, unit in units.items() if bound.get(name)]
    return f"at most {' or '.join(lost)} of writes lost" if lost else "nothing lost"


def _events(look: Look, now: datetime, paint: Paint) -> Iterator[str]:
    if look.events is None:
        yield paint("dim", "  Events are not yours to read.")
        return
    for event in _last(look.events):
        when, text = (
            ago(_moment(event), now),
            f"{event['reason']} {event['regarding']['name']}: {event['note']}",
        )
        lines = wrapped(when, text, 2)
        yield from (paint("yellow", line) for line in lines) if event["type"] == "Warning" else lines


def _last(events: Sequence[Found]) -> list[Found]:
    return sorted(events, key=_moment)[-EVENTS_SHOWN:]


def _moment(event: Found) -> str:
    last: str = (event.get("series") or {}).get("lastObservedTime") or event["eventTime"]
    return last


def _status(node: Found) -> Found:
    return node.get("status") or {}


def _name(node: Found) -> str:
    return plain(node["metadata"]["name"])
