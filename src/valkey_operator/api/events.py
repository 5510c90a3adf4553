"""Reasons of Kubernetes Events, each with the sentence that people read; one place for the operator and the docs.

A reason is added here together with the code that gives it, and never renamed: alerts and scripts look for it.
"""

from __future__ import annotations

from enum import unique
from typing import Literal, Self

from valkey_operator.api.reasons import Word

Type = Literal["Normal", "Warning"]


@unique
class EventReason(Word):
    """What happened; the sentence says it, the action what was being done."""

    type: Type
    action: str

    def __new__(cls, word: str, type: Type, action: str, sentence: str) -> Self:  # noqa: A002
        member = str.__new__(cls, word)
        member._value_ = word
        member.type, member.action, member.sentence = type, action, sentence
        return member

    PRIMARY_CHANGE = (
        "PrimaryChange", "Normal", "ChangePrimary",
        "another server becomes primary; the note says which one and why",
    )  # fmt: skip
    RESTARTING = (
        "Restarting", "Normal", "Restart",
        "a pod is deleted so that it is made anew; the note says why",
    )  # fmt: skip
    SIDECAR_REPLACED = (
        "SidecarReplaced", "Normal", "Replace",
        "the sidecar of a pod gets another image; its server goes on",
    )  # fmt: skip
    DRIFT_UNDONE = (
        "DriftUndone", "Warning", "Undo",
        "an object of a node was changed by somebody else and put back; the note shows the difference",
    )  # fmt: skip
    CERTIFICATE_REPLACED = (
        "CertificateReplaced", "Warning", "Replace",
        "the certificate of a sidecar was replaced because it could not be used; the note says what was wrong",
    )  # fmt: skip
    SERVER_HUNG = (
        "ServerHung", "Warning", "Watch",
        "a server does not answer; the note says whether it is ended, or why it is left",
    )  # fmt: skip
    DISK_FULL = (
        "DiskFull", "Warning", "Watch",
        "the volume of a server is full; the note says what that means for writes",
    )  # fmt: skip
    STARTED_EMPTY = (
        "StartedEmpty", "Warning", "Watch",
        "a primary that served before starts without data; the note says where it was looked for",
    )  # fmt: skip
    FENCED = (
        "Fenced", "Warning", "Watch",
        "a primary refuses writes because it may not be primary any more; the note says why",
    )  # fmt: skip
