"""Makes one cluster out of our nodes and keeps it one: new ones, joining ones, and those that have moved.

Pure. What is seen decides, whatever was done before: cut after any action, the next look goes on from there. A node is
known by its id. What did not answer may be anything, so nothing is forgotten or given away while somebody is silent.
"""

from __future__ import annotations

from collections.abc import Iterable

from valkey_operator.api.guards import Guard
from valkey_operator.decide import apart, lost_slots, slots
from valkey_operator.decide.actions import Refusal, Wait
from valkey_operator.decide.cluster_actions import (
    AssignSlots,
    ClusterAction,
    ClusterStep,
    EndHurry,
    Follow,
    Forget,
    Hurry,
    Meet,
    NoteFormed,
    ResetNode,
)
from valkey_operator.decide.lost_slots import is_alive, strangers_in
from valkey_operator.model.cluster import (
    SLOTS,
    ClusterNode,
    ClusterView,
    Pair,
    SeenCluster,
    SeenMember,
    as_ranges,
    as_slots,
    as_text,
)

SOON = 0.05
# Milliseconds.
PING_PER_NODE, TIMEOUT_PER_NODE = 8, 40


def plan(seen: SeenCluster, may_be_lost: frozenset[int] = frozenset()) -> ClusterStep:
    """`may_be_lost`: shards whose slots a person wants served again, without what was in them."""
    lost = lost_slots.plan(seen, may_be_lost)
    if lost.actions:
        return lost
    refusals = (*_foreign(seen), *lost.refusals, *_stranded(seen))
    if reset := tuple(ResetNode(node.name) for node in _left_behind(seen) if not node.keys):
        return ClusterStep((reset,), (Wait("the nodes get to know each other", SOON),), refusals)
    assign = tuple(_assign(seen))
    # Whoever met a member of another cluster would merge the two.
    is_mixed = any(each.guard == Guard.ONLY_OUR_NODES_ARE_MEMBERS for each in refusals)
    lasting = frozenset[Pair]() if is_mixed else apart.lasting(seen)
    met = () if is_mixed else tuple(_meet(seen, lasting))
    meet = tuple(each for each in met if not _was_met_in_vain(each, lasting))
    # Last: what fails there keeps nobody else waiting; and with whatever else may fail for ever.
    again = tuple(each for each in met if each not in meet)
    follow = tuple(_follow(seen, lasting))
    forget = tuple(_forget(seen))
    is_in_vain = not assign and not follow and not meet
    if assign or met or follow or forget:
        hurry = () if is_in_vain else _hurry(seen)
        first: tuple[ClusterAction, ...] = (*hurry, *assign)
        last: tuple[ClusterAction, ...] = (*forget, *again)
        stages = tuple(stage for stage in (first, meet, follow, last) if stage)
        if again and is_in_vain:
            wait = Wait(_silence(seen) or apart.why(seen, lasting), apart.LOOK_SELDOM)
            return ClusterStep(stages, (wait,), refusals, is_in_vain=True)
        return ClusterStep(stages, (Wait("the nodes get to know each other", SOON),), refusals)
    return _settled(seen, refusals, lasting)


def awaited(seen: SeenCluster) -> list[str]:
    """Who must be heard before a new cluster is begun. Those who are there first would get to know each other while the
    rest starts, and again then; the others need the processors."""
    if seen.is_formed or seen.owned:
        return []
    return [node.name for node in seen.nodes if node.view is None]


def _was_met_in_vain(action: Meet, lasting: frozenset[Pair]) -> bool:
    return all((action.node, other) in lasting for other in action.others)


def _settled(seen: SeenCluster, refusals: tuple[Refusal, ...], lasting: frozenset[Pair]) -> ClusterStep:
    if lasting and not _silence(seen):
        return ClusterStep(waits=(Wait(apart.why(seen, lasting), apart.LOOK_SELDOM),), refusals=refusals)
    why = why_not_agreed(seen)
    if why:
        is_quick = any(view.is_hurrying for _, view in seen.answered)
        return ClusterStep(waits=(Wait(why, SOON if is_quick else 1.0),), refusals=refusals)
    end = tuple(EndHurry(node.name) for node, view in seen.answered if view.is_hurrying)
    is_complete = not seen.is_formed and len(seen.owned) == SLOTS
    note: tuple[ClusterAction, ...] = (NoteFormed(),) if is_complete else ()
    return ClusterStep(tuple(stage for stage in (note, end) if stage), refusals=refusals)


def why_not_agreed(seen: SeenCluster) -> str:
    """Empty when all nodes tell their clients the same and every replica is in sync."""
    if silence := _silence(seen):
        return silence
    for node, view in seen.answered:
        if not view.is_ok:
            return f"{node.name} does not serve: some slots have no primary, or it sees too few"
        if view.by_id.keys() != seen.by_id.keys() or len(view.members) != len(view.by_id):
            return f"{node.name} does not know exactly the nodes of this cluster"
        unconnected = [seen.by_id[each.id].name for each in view.by_id.values() if not each.is_connected]
        unconnected += [other.name for other in seen.nodes if _is_sought_elsewhere(view, other)]
        if unconnected:
            return f"{node.name} is not connected to {', '.join(sorted(unconnected))}"
        if not view.own.is_primary and not node.is_in_sync:
            return f"{node.name} is not in sync with its primary"
    if len({view.shards_digest for _, view in seen.answered}) > 1:
        return "the nodes do not agree on the shards yet"
    return ""


def _silence(seen: SeenCluster) -> str:
    """While somebody is silent, others may wait for that one before they join."""
    silent = sorted(node.name for node in seen.nodes if node.view is None)
    return f"{', '.join(silent)}: no answer" if silent else ""


def _hurry(seen: SeenCluster) -> tuple[Hurry, ...]:
    """Everybody pings everybody: with many nodes as fast as with few, machines would do nothing else, and those that
    come too late would be taken for dead."""
    count = len(seen.nodes)
    ping, timeout = max(100, PING_PER_NODE * count), max(500, TIMEOUT_PER_NODE * count)
    # Its node timeout is by what an owner of slots judges others: a short one, where nothing is stored yet.
    is_in_use = seen.is_formed or any(node.keys for node in seen.nodes)
    return tuple(
        Hurry(node.name, ping, None if is_in_use and view.own.slots else timeout)
        for node, view in seen.answered
        if not view.is_hurrying
    )


def _assign(seen: SeenCluster) -> Iterable[AssignSlots]:
    """Only of a cluster that never had them all, only what nobody owns, and only when nobody can hold data of it."""
    silent = [node for node in seen.nodes if node.view is None and node.may_hold_data]
    if seen.is_formed or silent or any(node.keys for node, _ in seen.answered):
        return
    for epoch, (shard, ranges) in enumerate(slots.initial(seen.shards).items(), 1):
        missing = as_slots(ranges) - seen.owned
        primary = seen.primary_of(shard)
        if missing and primary is not None and primary.view is not None and primary.view.own.is_primary:
            yield AssignSlots(primary.name, as_ranges(missing), epoch)


def _meet(seen: SeenCluster, lasting: frozenset[Pair]) -> Iterable[Meet]:
    """One node meets all it does not know, a replica meets its primary, and who has moved is met by everybody; so is
    whoever has remained unknown for long: the way from that one node may be closed."""
    hub = _hub(seen)
    for node, view in seen.answered:
        primary = seen.primary_of(node.shard)
        others = [
            other
            for other, its in seen.answered
            if other is not node
            and (other.id in view.by_id or not (_has_company(seen, view) or _has_company(seen, its)))
            and _needs_meeting(
                node,
                other,
                # One of the two is enough, unless the other one knows this node already and gets no answer.
                is_near=node is hub
                or other is primary
                or (other is hub and node.id in its.by_id)
                or (node.name, other.name) in lasting,
            )
        ]
        in_vain = [other for other in others if (node.name, other.name) in lasting]
        for group in ([other for other in others if other not in in_vain], in_vain):
            if group:
                yield Meet(node.name, tuple(other.name for other in group))


def _has_company(seen: SeenCluster, view: ClusterView) -> bool:
    """It knows somebody who is of another cluster, or one of ours that was never heard: until that is known it joins
    nobody."""
    return any(
        each.id not in seen.by_id and (is_alive(each) or each.ranges) and not seen.is_former(each)
        for each in view.by_id.values()
    )


def _hub(seen: SeenCluster) -> ClusterNode | None:
    """Who knows most of us; of those the first."""
    known = {node.name: len(view.by_id.keys() & seen.by_id.keys()) for node, view in seen.answered}
    return max(
        (node for node, _ in seen.answered), key=lambda node: (known[node.name], -node.shard, -node.index),
        default=None,
    )  # fmt: skip


def _needs_meeting(node: ClusterNode, other: ClusterNode, *, is_near: bool) -> bool:
    assert node.view is not None
    if not other.address or any(
        each.is_in_handshake and each.address == other.address for each in node.view.members
    ):
        return False
    member = node.view.by_id.get(other.id)
    if member is None:
        return is_near
    # Where both have moved, neither hears the other; the first of the two is told.
    have_both_moved = other.view is not None and _is_sought_elsewhere(other.view, node)
    return _is_sought_elsewhere(node.view, other) and (
        not member.is_connected or (have_both_moved and node.name < other.name)
    )


def _is_sought_elsewhere(view: ClusterView, other: ClusterNode) -> bool:
    """A server says "connected" of one that has moved as long as it knocks where that one was."""
    member = view.by_id.get(other.id)
    return member is not None and bool(other.address) and member.address != other.address


def _follow(seen: SeenCluster, lasting: frozenset[Pair]) -> Iterable[Follow]:
    for node, view in seen.answered:
        primary = seen.primary_of(node.shard)
        if primary is None or primary.view is None or primary is node or not primary.view.own.is_primary:
            continue
        if primary.id not in view.by_id and (node.name, primary.name) in lasting:
            continue  # nobody follows whom it does not know
        if view.own.primary_id != primary.id and not view.own.slots and not _is_stranded(node, view):
            yield Follow(node.name, primary.name, primary.id)


def _forget(seen: SeenCluster) -> Iterable[Forget]:
    """On all at once, while everybody answers: one that was left out would tell the others of it again."""
    if any(node.view is None for node in seen.nodes):
        return
    followed = {view.own.primary_id for _, view in seen.answered if view.importing}
    for node, view in seen.answered:
        # Nobody forgets the one it follows; nor do the others while that one was taking slots: it is to be replaced.
        strangers = [
            each for each in strangers_in(seen, view) if each.id not in followed | {view.own.primary_id}
        ]
        ghosts = [each.id for each in strangers if not is_alive(each) and not _owns(seen, each)]
        removed = [each.id for each in strangers if seen.was_removed(each) and not _owns(seen, each)]
        # Members of another deployment. Those may go on knowing us: a server believes only whom it knows.
        foreign = [each.id for each in strangers if _was_met(seen, each) and each.id not in ghosts]
        if removed:
            yield Forget(node.name, tuple(removed), though_they_seem_connected=True)
        if ghosts := [each for each in ghosts if each not in removed]:
            yield Forget(node.name, tuple(ghosts))
        if foreign:
            yield Forget(node.name, tuple(foreign), though_they_own_slots=True)


def _was_met(seen: SeenCluster, member: SeenMember) -> bool:
    """Of another deployment, and known to all of us: it did not come with one that has a wrong volume."""
    return seen.is_foreign(member) and seen.is_known_to_all(member)


def _owns(seen: SeenCluster, member: SeenMember) -> bool:
    views = (view.by_id.get(member.id) for _, view in seen.answered)
    return any(each is not None and each.ranges for each in views)


def _foreign(seen: SeenCluster) -> Iterable[Refusal]:
    """Members of another cluster, met by mistake; and nodes of ours that own what others of ours own."""
    found = {
        each.id: (node, each)
        for node, view in seen.answered
        for each in strangers_in(seen, view)
        if not seen.is_former(each) and (is_alive(each) or (each.ranges and not seen.is_known_to_all(each)))
    }
    for node, each in found.values():
        yield Refusal(
            "meet",
            Guard.ONLY_OUR_NODES_ARE_MEMBERS,
            f"{node.name} knows {each.hostname or each.id} at {each.address or 'no address'}, which is no node of this "
            f"cluster: {_what_to_do(seen, each)}",
        )
    yield from _rivals(seen)


def _what_to_do(seen: SeenCluster, each: SeenMember) -> str:
    return "it is forgotten on all nodes" if _was_met(seen, each) else "reset that one, or remove it, by hand"


def _rivals(seen: SeenCluster) -> Iterable[Refusal]:
    owners: dict[int, ClusterNode] = {}
    for node, view in seen.answered:
        rivals = {owners[slot].name for slot in view.own.slots if slot in owners}
        shared = {slot for slot in view.own.slots if slot in owners}
        owners.update((slot, node) for slot in view.own.slots)
        strangers = [name for name in rivals if _do_not_know_each_other(seen, node, name)]
        if strangers:
            yield Refusal(
                "meet",
                Guard.ONLY_OUR_NODES_ARE_MEMBERS,
                f"{node.name} and {', '.join(sorted(strangers))} do not know each other and both own slots "
                f"{as_text(shared)}: one of them is from another cluster",
            )


def _do_not_know_each_other(seen: SeenCluster, node: ClusterNode, name: str) -> bool:
    """Those that do settle by themselves who is the owner: the newer epoch is."""
    other = next(each for each in seen.nodes if each.name == name)
    views = [(node.view, other.id), (other.view, node.id)]
    return all(view is not None and known not in view.by_id for view, known in views)


def _stranded(seen: SeenCluster) -> Iterable[Refusal]:
    for node, view in seen.answered:
        primary = seen.primary_of(node.shard)
        if primary is not None and primary is not node and _is_stranded(node, view):
            yield Refusal(
                f"let {node.name} follow {primary.name}",
                Guard.A_PRIMARY_WITH_KEYS_IS_NOT_EMPTIED,
                f"{node.name} owns no slots and holds {node.keys} keys, which nobody can read there",
            )
    for node in _left_behind(seen):
        if node.keys:
            yield Refusal(
                f"let {node.name} begin anew",
                Guard.A_PRIMARY_WITH_KEYS_IS_NOT_EMPTIED,
                f"{node.name} follows a server that is gone, and holds {node.keys} keys of it, which nobody can read; "
                "nothing is removed, moved or restarted meanwhile: save them if they are needed, then delete its "
                "PersistentVolumeClaim, where it has one, and its pod, and it begins anew without them",
            )


def _left_behind(seen: SeenCluster) -> list[ClusterNode]:
    """As of a shard that was removed and is made again: with its volume it follows one that is no more and owned
    nothing, so that nobody would ever elect it. Known only while everybody answers."""
    if any(node.view is None for node in seen.nodes):
        return []
    members = {each.id: each for _, view in seen.answered for each in view.by_id.values()}
    return [
        node
        for node, view in seen.answered
        if not view.own.is_primary
        and view.own.primary_id not in seen.by_id
        and not seen.is_leaving(view.own.primary_id)
        and seen.primary_of(node.shard) is None
        and seen.orphaned(node.shard) is None
        and not (view.own.primary_id in members and _owns(seen, members[view.own.primary_id]))
    ]


def _is_stranded(node: ClusterNode, view: ClusterView) -> bool:
    return view.own.is_primary and not view.own.slots and node.keys > 0
