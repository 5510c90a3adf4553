"""Which nodes there are: made, told of the record, removed from the highest index down, and never the primary before
the others. Suspended, the volumes stay."""

from __future__ import annotations

from collections.abc import Callable

from valkey_operator.api.guards import Guard, named
from valkey_operator.decide import sight
from valkey_operator.decide.actions import (
    Action,
    Doing,
    MakeNode,
    Refusal,
    RemoveNode,
    Step,
    UpdateNodes,
    Wait,
    WantedNode,
)
from valkey_operator.decide.reliance import the_primary_does_without_it
from valkey_operator.model.instance import NodeRecord, SeenInstance, SeenNode

SCALING = "Scaling"
SUSPENDING = "Suspending"


def wanted_names(seen: SeenInstance) -> list[str]:
    """The first so many, and the recorded primary until it has handed over: it has the data."""
    count = seen.wish.replicas
    names = {f"{seen.name}-{index}" for index in range(count)}
    if count and seen.record.primary:
        names.add(seen.record.primary)
    return sorted(names, key=sight.index_of)


def wanted_nodes(seen: SeenInstance) -> tuple[WantedNode, ...]:
    """What the spec of each node must say, which follows from the record and from who there is."""
    there = {node.name for node in sight.members(seen)}
    names = sorted(there | set(wanted_names(seen)), key=sight.index_of)
    # As text, as the spec says it: by number, "v-10" would never be where it is looked for.
    record = NodeRecord(seen.record.epoch, seen.record.primary, tuple(sorted(names)))
    return tuple(WantedNode(name, record) for name in names)


def make(seen: SeenInstance) -> Step:
    """Those that are told first, so that nobody starts without knowing of the new ones."""
    actions: list[Action] = []
    there = {node.name: node for node in seen.nodes}
    wanted = wanted_nodes(seen)
    behind = tuple(
        each.name for each in wanted if each.name in there and there[each.name].spec != each.record
    )
    missing = [each.name for each in wanted if each.name not in there]
    if behind:
        actions.append(UpdateNodes(behind))
    actions += [MakeNode(name) for name in missing]
    leaving = [name for name in wanted_names(seen) if name in there and there[name].is_being_deleted]
    waits = (Wait(f"{', '.join(leaving)} must be gone before it is made anew"),) if leaving else ()
    doing = Doing(SCALING, f"{', '.join(missing)} is made") if missing else None
    return Step(tuple(actions), waits, doing=doing)


def remove(seen: SeenInstance, primary: SeenNode | None) -> Step:
    """One at a time."""
    node = _next_to_go(seen)
    if node is None:
        return Step()
    for guard, check in EVERY_GUARD.items():
        why = check(seen, node, primary)
        if why:
            refused = Refusal(f"remove {node.name}", guard, why)
            return Step(waits=(Wait(why),), refusals=(refused,))
    kind = SCALING if seen.wish.replicas else SUSPENDING
    doing = Doing(kind, f"{node.name} is removed")
    return Step((RemoveNode(node.name),), doing=doing, is_exclusive=True)


def going(seen: SeenInstance, primary: SeenNode) -> SeenNode | None:
    """It is removed as soon as the primary does without it."""
    node = _next_to_go(seen)
    is_held = node is None or any(check(seen, node, primary) for check in GUARDS.values())
    return None if is_held else node


def _next_to_go(seen: SeenInstance) -> SeenNode | None:
    """The highest index that is too many, never the primary before all others."""
    surplus = [node for node in sight.members(seen) if node.name not in wanted_names(seen)]
    return max(surplus, key=lambda each: (each.name != seen.record.primary, each.index), default=None)


def the_office_is_settled(seen: SeenInstance, node: SeenNode, primary: SeenNode | None) -> str:
    """Nothing that may hold the newest data is removed; what never ran may go at any time."""
    if sight.never_ran(node) or (primary is not None and sight.is_in_office(primary)):
        return ""
    return f"{seen.record.primary} is not seen in office, and {node.name} may be needed"


def the_primary_is_never_the_one_removed(seen: SeenInstance, node: SeenNode, _p: SeenNode | None) -> str:
    is_last = not seen.wish.replicas and len(seen.nodes) == 1
    if node.name != seen.record.primary or is_last:
        return ""
    return f"{node.name} is the primary: the others go first"


def a_replica_in_sync_stays(seen: SeenInstance, node: SeenNode, primary: SeenNode | None) -> str:
    """What is asked for must be as good as what is taken away."""
    wish = seen.wish
    if wish.replicas < 2 or primary is None or not sight.is_in_sync(node, primary.name):
        return ""
    stay = [each for each in sight.others(seen, node.name, primary.name) if each.index < wish.replicas]
    least = min(max(1, wish.min_replicas_to_write), wish.replicas - 1)
    in_sync = sum(sight.is_in_sync(each, primary.name) for each in stay)
    return (
        ""
        if in_sync >= least
        else f"{in_sync} of the replicas that stay are in sync, at least {least} must be"
    )


def a_suspended_deployment_keeps_its_data(
    seen: SeenInstance, _node: SeenNode, primary: SeenNode | None
) -> str:
    if seen.wish.replicas or seen.wish.keeps_data or primary is None:
        return ""
    if primary.name in seen.wish.gives_up or not sight.holds_data(primary):
        return ""
    return (
        "nothing is kept on a volume, so to suspend it would lose all data: set the annotation "
        f"valkey.io/allow-data-loss: {primary.name} if that is all right"
    )


Check = Callable[[SeenInstance, SeenNode, SeenNode | None], str]
GUARDS: dict[Guard, Check] = named(
    the_office_is_settled,
    the_primary_is_never_the_one_removed,
    a_replica_in_sync_stays,
    a_suspended_deployment_keeps_its_data,
)
EVERY_GUARD: dict[Guard, Check] = {**GUARDS, **named(the_primary_does_without_it)}
