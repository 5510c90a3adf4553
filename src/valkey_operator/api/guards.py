"""Guards by name: each holds a step back as long as its rule is not kept. One place for status, answers, CLI and docs.

The operator's are in `status.next[].refusedBy`, the sidecars' in their answers and in what a node waits for. A guard is
added here together with the code that gives it, and never renamed: scripts look for it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import unique
from typing import Any, Self, TypeVar

from valkey_operator.api.reasons import Word

NOTHING = "nothing: it ends by itself"
NOT_YOURS = "nothing: the operator looks again and orders what fits"
SHOWN = "`kubectl valkey status` shows which"


@unique
class Guard(Word):
    """A rule; the sentence says what it holds back, the remedy what a person can do."""

    remedy: str

    def __new__(cls, word: str, sentence: str, remedy: str) -> Self:
        member = str.__new__(cls, word)
        member._value_ = word
        member.sentence, member.remedy = sentence, remedy
        return member

    # Planned changes of a primary.
    A_NEW_PRIMARY_IS_ONE_OF_ITS_REPLICAS = (
        "a_new_primary_is_one_of_its_replicas",
        "a handover while there is no replica for it, or to a node that is no replica or does not stay",
        "name a replica, or ask for more of them",
    )
    A_REPLICA_TAKES_OVER = (
        "a_replica_takes_over",
        "a switchover to a node that does not exist, or in a shard that has no primary",
        f"name a replica: {SHOWN} there are",
    )
    REPLICA_IS_CAUGHT_UP_BEFORE_SWITCHOVER = (
        "replica_is_caught_up_before_switchover",
        "a planned change of the primary while no replica that may be the next one is in sync",
        "wait until it is in sync, or name another one",
    )
    THE_LAST_HANDOVER_DID_NOT_FAIL_JUST_NOW = (
        "the_last_handover_did_not_fail_just_now",
        "another handover within half a minute of one that failed",
        NOTHING,
    )
    THE_SERVICE_WAS_NOT_MOVED_JUST_NOW = (
        "the_service_was_not_moved_just_now",
        "another handover within two seconds of the last one, which clients have to follow first",
        NOTHING,
    )
    THE_PODS_HAVE_BEEN_QUIET = (
        "the_pods_have_been_quiet",
        "a handover within two seconds after a pod has come or gone, because clients follow one change a second",
        NOTHING,
    )

    # Primaries that are dead, or that nobody sees.
    NOBODY_HEARS_THE_PRIMARY = (
        "nobody_hears_the_primary",
        "replacing a primary that was heard of a moment ago",
        NOTHING,
    )
    SOMEBODY_ELSE_MISSES_THE_PRIMARY = (
        "somebody_else_misses_the_primary",
        "replacing a primary that only the operator does not reach, while its kubelet or its replicas do",
        "mend the network between the operator and the pod",
    )
    NO_REPLICA_HEARS_THE_PRIMARY = (
        "no_replica_hears_the_primary",
        "replacing a primary whose replicas still hear it: without its sidecar nobody keeps it from writing",
        "let its sidecar come back; its ValkeyNode says why it does not. Or delete its pod",
    )
    ONLY_A_REPLICA_THE_PRIMARY_COUNTS_ON_REPLACES_IT_UNPROVEN = (
        "only_a_replica_the_primary_counts_on_replaces_it_unproven",
        "replacing a primary that may be writing by a replica without which it goes on writing",
        "let the primary come back, or a replica that `status.promotable` names; or, if the primary's server is off "
        "for sure, set the annotation valkey.io/allow-data-loss: <primary>",
    )
    AN_EMPTY_NODE_NEVER_LEADS_A_FULL_ONE = (
        "an_empty_node_never_leads_a_full_one",
        "letting an empty node lead one that holds data, which would throw it away",
        "let the one that holds data come up, or empty it, if its data may be lost",
    )
    A_PRIMARY_IS_REPLACED_WITHOUT_A_VOTE_ONLY_WHEN_IT_IS_PROVEN_DEAD = (
        "a_primary_is_replaced_without_a_vote_only_when_it_is_proven_dead",
        "replacing primaries of a cluster while too few are left to vote and those that are missing may be alive",
        "let them answer, delete their machines or taint them node.kubernetes.io/out-of-service, or set the annotation "
        "valkey.io/allow-takeover: <shards>",
    )
    LOST_SLOTS_ARE_NOT_REFILLED = (
        "lost_slots_are_not_refilled",
        "serving slots whose data is lost as if they had been empty",
        "restore a backup, or set the annotation valkey.io/allow-data-loss: <shard>",
    )

    # Nodes that go, and restarts.
    THE_OFFICE_IS_SETTLED = (
        "the_office_is_settled",
        "the removal of a node while the primary is not seen in office, for that node may hold the newest data",
        "let the primary come back; its ValkeyNode says why it does not",
    )
    THE_PRIMARY_IS_NEVER_THE_ONE_REMOVED = (
        "the_primary_is_never_the_one_removed",
        "the removal of the primary while there are other nodes",
        NOTHING,
    )
    A_REPLICA_IN_SYNC_STAYS = (
        "a_replica_in_sync_stays",
        "the removal of a replica while too few of those that stay are in sync",
        f"wait until they are; {SHOWN} are not",
    )
    A_SUSPENDED_DEPLOYMENT_KEEPS_ITS_DATA = (
        "a_suspended_deployment_keeps_its_data",
        "suspending a deployment that keeps nothing on a volume",
        "set the annotation valkey.io/allow-data-loss: <primary>, if its data may be lost",
    )
    DATA_IS_KEPT_WHEN_ALL_PODS_GO = (
        "data_is_kept_when_all_pods_go",
        "suspending a cluster that keeps nothing on volumes",
        "set `replicas` back, or delete the cluster, if its data may be lost",
    )
    THE_PRIMARY_DOES_WITHOUT_IT = (
        "the_primary_does_without_it",
        "stopping a replica whose word the primary needs to go on writing",
        NOTHING,
    )
    UPDATES_ARE_LEFT_TO_PEOPLE = (
        "updates_are_left_to_people",
        "restarts while `update.strategy` is OnDelete",
        "delete the pods when it suits you",
    )
    A_ROLL_BEGINS_IN_ITS_WINDOW = (
        "a_roll_begins_in_its_window",
        "the begin of a roll while `update.window` is closed",
        "wait for the window, or change it",
    )
    THE_FIRST_POD_OF_A_ROLL_CAME_BACK = (
        "the_first_pod_of_a_roll_came_back",
        "further restarts while a pod does not come up",
        "mend what its ValkeyNode complains of, or take the change back",
    )
    ONLY_ONE_POD_IS_AWAY_AT_A_TIME = (
        "only_one_pod_is_away_at_a_time",
        "a restart while another node is not back in sync",
        NOTHING,
    )
    ONLY_ONE_SIDECAR_IS_REPLACED_AT_A_TIME = (
        "only_one_sidecar_is_replaced_at_a_time",
        "another image for a sidecar while another node is not back",
        NOTHING,
    )
    ONLY_PODS_THAT_ARE_BACK_ARE_FOLLOWED_BY_OTHERS = (
        "only_pods_that_are_back_are_followed_by_others",
        "restarts in a cluster while a pod is not ready",
        "mend what its ValkeyNode complains of, or take the change back",
    )
    A_PRIMARY_THAT_WAS_HANDED_OVER_IS_RESTARTED_AS_A_REPLICA = (
        "a_primary_that_was_handed_over_is_restarted_as_a_replica",
        "the restart of a primary that has nobody to hand over to: its replicas are not there yet, or nothing is kept "
        "on a volume",
        "wait for its replicas; where none are asked for, delete its pod, if its data may be lost",
    )
    DATA_IS_KEPT_WHEN_A_LONE_POD_GOES = (
        "data_is_kept_when_a_lone_pod_goes",
        "the restart of the only pod of a shard that keeps nothing on a volume",
        "delete the pod, if the data of the shard may be lost",
    )
    SUPERVISED_WAITS_FOR_A_PERSON = (
        "supervised_waits_for_a_person",
        "the restart of a primary while `update.supervised` is set",
        "`kubectl valkey switchover` when it suits you; without replicas delete the pod",
    )

    # Clusters: who is a member, and who owns which slots.
    ONLY_OUR_NODES_ARE_MEMBERS = (
        "only_our_nodes_are_members",
        "meeting further nodes while one knows a member of another cluster: the two would become one",
        "reset or remove that member by hand, unless the message says that it is forgotten",
    )
    A_PRIMARY_WITH_KEYS_IS_NOT_EMPTIED = (
        "a_primary_with_keys_is_not_emptied",
        "letting a primary without slots follow another one while it still holds keys, which would be lost",
        "save its keys, then FLUSHALL there",
    )
    A_PERSON_STOPPED_IT = (
        "a_person_stopped_it",
        "moving further slots after `kubectl valkey cancel`",
        "`kubectl valkey reshard` goes on",
    )
    EVERY_SHARD_HAS_A_PRIMARY = (
        "every_shard_has_a_primary",
        "moving slots while a shard has no primary that is seen",
        "let it come back; its ValkeyNodes say why it does not",
    )
    EVERY_TARGET_HAS_ROOM = (
        "every_target_has_room",
        "moving slots to a shard that has not the memory for them",
        "raise `resources.limits.memory`, or ask for more shards",
    )
    SLOTS_DO_NOT_GO_TO_AN_OLDER_SERVER = (
        "slots_do_not_go_to_an_older_server",
        "moving slots to a server that is older and does not understand their keys",
        "finish the upgrade first",
    )

    # Sidecars: any order.
    AN_ORDER_IS_FOR_ONE_POD = (
        "an_order_is_for_one_pod",
        "an order that was meant for another pod of this node",
        NOT_YOURS,
    )
    AN_ORDER_IS_UNDERSTOOD = (
        "an_order_is_understood",
        "an order that this sidecar does not know, because the operator is newer or the server is in no cluster",
        "let the roll to the new sidecar end",
    )
    NO_ORDER_OF_AN_OLDER_EPOCH = (
        "no_order_of_an_older_epoch",
        "an order by somebody who does not know of the last change of the primary",
        NOT_YOURS,
    )
    ONE_PRIMARY_PER_EPOCH = (
        "one_primary_per_epoch",
        "a second primary in the same epoch",
        NOT_YOURS,
    )
    A_SERVER_RUNS = (
        "a_server_runs",
        "an order for a server that does not run",
        "see in its ValkeyNode why it does not",
    )
    THE_SERVER_ANSWERS = (
        "the_server_answers",
        "a change of the primary at a server that does not answer",
        "see in its ValkeyNode why it does not",
    )

    # Sidecars: changes of the primary.
    A_NODE_HANDS_OVER_ITS_OWN_OFFICE = (
        "a_node_hands_over_its_own_office",
        "a takeover that one node asks for in the name of another",
        NOT_YOURS,
    )
    ONLY_A_PRIMARY_HANDS_OVER = (
        "only_a_primary_hands_over",
        "a handover by a node that is no primary",
        NOT_YOURS,
    )
    ONLY_A_REPLICA_TAKES_OVER = (
        "only_a_replica_takes_over",
        "a takeover by a node that is a primary already",
        NOT_YOURS,
    )
    A_REPLICA_FOLLOWS_WHO_HANDS_OVER = (
        "a_replica_follows_who_hands_over",
        "a takeover from a primary that this replica does not follow",
        NOT_YOURS,
    )
    A_REPLICA_IS_LOADED = (
        "a_replica_is_loaded",
        "a takeover by a replica that has not got all its data yet",
        NOTHING,
    )
    THE_REPLICA_IS_CONNECTED = (
        "the_replica_is_connected",
        "a handover to a replica that does not answer, is not in sync, or has no room on its volume",
        "see in its ValkeyNode what it lacks",
    )
    THE_REPLICA_HAS_EVERYTHING = (
        "the_replica_has_everything",
        "the end of a handover while the replica has not got every write; the primary stays",
        "ask again when there is less to write",
    )
    THE_DEMOTION_IS_ANSWERED = (
        "the_demotion_is_answered",
        "the end of a handover whose old primary does not say that it is demoted; it takes no writes meanwhile",
        NOTHING,
    )
    THE_REPLICA_TAKES_OVER = (
        "the_replica_takes_over",
        "the end of a change of the primary while the new one has not said that it is primary",
        NOTHING,
    )
    A_RUNNING_PRIMARY_IS_NOT_DEPOSED = (
        "a_running_primary_is_not_deposed",
        "noting another primary where a server runs that is one, or may be",
        NOT_YOURS,
    )
    A_TAKEOVER_NEEDS_PROOF = (
        "a_takeover_needs_proof",
        "a takeover without a vote when nobody says how the primary is known to be dead",
        NOT_YOURS,
    )
    A_DEAD_PRIMARY_DOES_NOT_TALK = (
        "a_dead_primary_does_not_talk",
        "a takeover from a primary that still talks to this replica",
        NOT_YOURS,
    )
    A_VOTE_IS_IMPOSSIBLE = (
        "a_vote_is_impossible",
        "a takeover without a vote while enough primaries can vote",
        NOTHING,
    )

    # Sidecars: membership and slots.
    A_SERVER_IS_IN_A_CLUSTER = (
        "a_server_is_in_a_cluster",
        "an order for clusters to a server that is in none, or does not answer",
        "see in its ValkeyNode why it does not",
    )
    NOBODY_IS_MET_UNCHECKED = (
        "nobody_is_met_unchecked",
        "meeting a node that does not say by itself that it is the one that is meant",
        NOT_YOURS,
    )
    A_CONNECTED_NODE_IS_NOT_FORGOTTEN = (
        "a_connected_node_is_not_forgotten",
        "forgetting a member that is connected",
        NOT_YOURS,
    )
    AN_OWNER_OF_SLOTS_IS_NOT_FORGOTTEN = (
        "an_owner_of_slots_is_not_forgotten",
        "forgetting a member that owns slots",
        NOT_YOURS,
    )
    AN_OWNER_OF_SLOTS_IS_NOT_RESET = (
        "an_owner_of_slots_is_not_reset",
        "resetting a node that owns slots",
        NOT_YOURS,
    )
    A_NODE_WITH_KEYS_IS_NOT_RESET = (
        "a_node_with_keys_is_not_reset",
        "resetting a node that holds keys",
        "save its keys, then FLUSHALL there",
    )
    AN_OWNER_OF_SLOTS_STAYS_PRIMARY = (
        "an_owner_of_slots_stays_primary",
        "letting an owner of slots follow another node",
        NOT_YOURS,
    )
    ONLY_A_PRIMARY_OWNS_SLOTS = (
        "only_a_primary_owns_slots",
        "assigning slots to a replica",
        NOT_YOURS,
    )
    SLOTS_OF_OTHERS_STAY_THEIRS = (
        "slots_of_others_stay_theirs",
        "assigning slots that belong to another node",
        NOT_YOURS,
    )
    SLOTS_GO_BETWEEN_PRIMARIES = (
        "slots_go_between_primaries",
        "moving slots from or to a node that is no primary",
        NOT_YOURS,
    )
    SLOTS_GO_FROM_THEIR_OWNER = (
        "slots_go_from_their_owner",
        "moving slots that do not belong to their source",
        NOT_YOURS,
    )
    SLOTS_GO_KEY_BY_KEY_BEFORE_9 = (
        "slots_go_key_by_key_before_9",
        "moving slots as a whole from a server older than Valkey 9",
        NOT_YOURS,
    )
    ONE_MIGRATION_AT_A_TIME = (
        "one_migration_at_a_time",
        "moving slots key by key while others are moved",
        NOTHING,
    )
    ONLY_IMPORTED_SLOTS_ARE_CLAIMED = (
        "only_imported_slots_are_claimed",
        "claiming slots that were not imported",
        NOT_YOURS,
    )
    ONLY_EMPTIED_SLOTS_ARE_CLAIMED = (
        "only_emptied_slots_are_claimed",
        "claiming slots of which the former owner does not say that they are empty",
        NOT_YOURS,
    )
    THE_TARGET_CLAIMS_WHAT_IS_EMPTY = (
        "the_target_claims_what_is_empty",
        "the end of a move whose target has not claimed the slots in time; it is begun again",
        NOTHING,
    )

    # Sidecars: may a server start?
    A_SERVER_WAITS_AT_THE_GATE = (
        "a_server_waits_at_the_gate",
        "opening a gate at which no server waits",
        NOT_YOURS,
    )
    A_NODE_HAS_ONE_POD = (
        "a_node_has_one_pod",
        "the start of a server while another pod of its node holds the volume",
        "wait until that pod has ended, or delete it",
    )
    EVERY_MEMBER_MUST_HAVE_ANSWERED = (
        "every_member_must_have_answered",
        "the start of a primary while a member is silent that may be the primary by now",
        "let that member come back; its ValkeyNode says why it does not",
    )
    A_LIVING_MEMBER_GOES_FIRST = (
        "a_living_member_goes_first",
        "the start of a primary that did not stop cleanly while a member that runs has newer data",
        NOTHING,
    )
    THE_FULLEST_DISK_STARTS = (
        "the_fullest_disk_starts",
        "the start of a primary while the disk of another member holds more",
        NOTHING,
    )

    # Sidecars: may a silent server be ended?
    A_SERVER_THAT_STOPS_HAS_ITS_TIME = (
        "a_server_that_stops_has_its_time",
        "ending a silent server that saves its data and stops",
        NOTHING,
    )
    A_SERVER_THAT_STARTS_OR_LOADS_IS_NOT_HUNG = (
        "a_server_that_starts_or_loads_is_not_hung",
        "ending a silent server that has not served yet, or loads its data",
        NOTHING,
    )
    A_TRACED_SERVER_IS_LEFT_TO_WHO_TRACES_IT = (
        "a_traced_server_is_left_to_who_traces_it",
        "ending a silent server that a debugger holds",
        "detach the debugger",
    )
    A_HUNG_SERVER_IS_SILENT_FOR_LONG = (
        "a_hung_server_is_silent_for_long",
        "ending a server that is silent for less than 10 s, or for less than 30 s while it works",
        NOTHING,
    )
    A_SERVER_AT_WORK_IS_ENDED_ONLY_FOR_A_SUCCESSOR = (
        "a_server_at_work_is_ended_only_for_a_successor",
        "ending a silent primary that works while no replica can take over",
        "wait for the command it is at",
    )
    NOTHING_IS_LOST_WITH_A_HUNG_SERVER = (
        "nothing_is_lost_with_a_hung_server",
        "ending a primary that hangs while nobody else has all its data",
        "continue it (kill -CONT), or delete its pod to start it with what is on its volume",
    )


Check = TypeVar("Check", bound=Callable[..., Any])


def named(*checks: Check) -> dict[Guard, Check]:
    """Functions that are guards, by their own names and in this order; one that is called otherwise fails at once."""
    return {Guard[check.__name__.upper()]: check for check in checks}
