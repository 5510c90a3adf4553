"""Condition types and reasons, each with the sentence that people read; one place for status, CLI and docs.

A reason is added here together with the code that gives it, and never renamed: alerts and scripts look for it.
"""

from __future__ import annotations

from enum import StrEnum, unique
from typing import Self


class Word(StrEnum):
    """One word for machines, with its sentence for people."""

    sentence: str

    def __new__(cls, word: str, sentence: str) -> Self:
        member = str.__new__(cls, word)
        member._value_ = word
        member.sentence = sentence
        return member


@unique
class ConditionType(Word):
    """What a condition is about; the sentence says what True means."""

    READY = "Ready", "it serves reads and writes with all its replicas"
    PROGRESSING = "Progressing", "the operator is changing something"
    DEGRADED = "Degraded", "something is missing, or what it asks for is not done; the reason says what"
    SLOTS_COVERED = "SlotsCovered", "every one of the 16384 slots has a primary"
    REPLICATED = "Replicated", "every primary has all its replicas, and they follow"
    CONFIG_APPLIED = "ConfigApplied", "every server runs with the configuration that is asked for"
    PAUSED = "Paused", "the operator leaves it alone but for its certificates"
    WARNING = "Warning", "something is allowed and risky"


@unique
class Reason(Word):
    """Why a condition or a state is as it is; the sentence says it to people."""

    CLUSTER_HEALTHY = "ClusterHealthy", "all shards are healthy and all slots assigned"
    ALL_NODES_HEALTHY = "AllNodesHealthy", "all servers are healthy"
    INVALID_SPEC = "InvalidSpec", "the values in force cannot work; nothing was changed"
    NOT_AS_REQUIRED = "NotAsRequired", "it has not what ValkeyClusterDefaults require; nothing was changed"
    NAME_CONFLICT = "NameConflict", "another deployment has what it would be called; nothing was changed"
    NOT_YET = "NotYetSupported", "it asks for what this version cannot do; nothing was changed"
    CERTIFICATES_VALID = "CertificatesValid", "the certificates are valid"
    CERTIFICATES_FAULTY = "CertificatesFaulty", "a certificate cannot be used"
    INITIALIZING = "Initializing", "the servers are being made"
    NOT_MANAGED = "NotManaged", "nobody the operator knows made it; it is left alone"
    SUSPENDED = "Suspended", "it has no pods because replicas is 0; its volumes are kept"
    PAUSED = "PausedByUser", "paused is set"
    NOT_PAUSED = "NotPaused", "the operator looks after it"
    SUSPENDING = "Suspending", "replicas is 0: its pods are being stopped, the primary last"
    NO_PRIMARY = "NoPrimary", "no server is primary, so nobody can write"
    REPLICAS_MISSING = "ReplicasMissing", "the primary serves, and a replica is missing or not in sync"
    DISK_FULL = "DiskFull", "a volume is full, and a server that cannot save its data refuses writes"
    IN_OPERATION = "InOperation", "it serves, and is being changed"
    ALL_REPLICAS_FOLLOW = "AllReplicasFollow", "every replica is in sync with the primary"
    SLOTS_WITHOUT_PRIMARY = (
        "SlotsWithoutPrimary",
        "some slots have no primary, so their keys cannot be reached",
    )
    SHARDS_INCOMPLETE = "ShardsIncomplete", "all slots are served, and a replica is missing or not in sync"
    SERVER_SERVES = "ServerServes", "the server serves"
    SERVER_AWAY = "ServerAway", "the server does not serve"
    CONFIG_IN_FORCE = "ConfigInForce", "nothing that is asked for waits to be in force"
    CONFIG_ON_ITS_WAY = "ConfigOnItsWay", "a change is on its way to the servers"
    DENIED = "DeniedByApiServer", "the API server does not let something be made that is asked for"
    CONFIG_REFUSED = "ConfigRefused", "the server does not take a directive"
    RESTART_NEEDED = "RestartNeeded", "a change comes into force with another start only"
    ONE_COPY = (
        "OneCopyInMemory",
        "replicas is 1 and persistence is off: all data is lost whenever its pod or its server ends",
    )
    NOTHING_RISKY = "NothingRisky", "nothing that it asks for puts data at risk"
