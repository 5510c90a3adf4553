"""What can go wrong when the Kubernetes API is asked, one class per thing a caller may do about it.

Texts are for people: what was asked, what the server said, what to do. They never carry a body that was sent.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from valkey_operator.kube.objects import NONE, UNDECODABLE, StatusAnswer

# The server's name for the flow that was full; the only trace that priority and fairness leaves in an answer.
FLOW_SCHEMA = "X-Kubernetes-PF-FlowSchema-UID"


class KubeError(Exception):
    """Anything the Kubernetes API, or the way to it, may answer."""


class Unreachable(KubeError):
    """No answer: whether a write took place is not known."""


class NotLeader(KubeError):
    """This process may not write: it does not lead, or cannot be sure that it still does."""


class Unreadable(KubeError):
    """The answer is not what the projection expects; the text names the field."""


class Misconfigured(KubeError):
    """The kubeconfig, the credentials or the certificates cannot be used; the text says which and why."""


class ApiError(KubeError):
    """The server refused; `code` is its HTTP status."""

    def __init__(self, code: int, status: StatusAnswer, asked: str) -> None:
        super().__init__(f"{asked}: {status.message or f'the API server answered {code}'}")
        self.code = code
        self.status = status


class NotFound(ApiError):
    """There is no such object, or no such kind."""


class Forbidden(ApiError):
    """A permission is missing; the server's text names user, verb and resource."""


class NamespaceEnds(Forbidden):
    """The namespace is being deleted, and takes nothing new."""


class Unauthorized(ApiError):
    """The server does not know who asks."""


class Invalid(ApiError):
    """The object breaks a rule of its kind."""


class Conflict(ApiError):
    """The object changed since it was read."""


class AlreadyExists(Conflict):
    """The name is taken."""


class OwnershipConflict(Conflict):
    """Another field manager owns what was applied; `owners` maps each such field to the manager's name."""

    @property
    def owners(self) -> dict[str, str]:
        # A cause says: conflict with "kubectl-edit" using apps/v1
        return {
            cause.field: cause.message.partition('"')[2].partition('"')[0] for cause in self.status.causes
        }


# The answer stays the same until somebody changes something: a right, a quota, a rule, the other's field.
class Taken(KubeError):
    """Somebody else has made an object of this name: it is not written into."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(
            f"{kind} {name} is there already and was not made by the operator, which leaves it as it is; "
            "delete it, or make the deployment under another name"
        )


DENIED = (Forbidden, Invalid, OwnershipConflict, Taken)


class Gone(ApiError):
    """The resourceVersion or the page is too old: list again."""


class DisruptionRefused(ApiError):
    """A PodDisruptionBudget does not allow this eviction now."""


class Throttled(ApiError):
    """The server is full; `retry_after` seconds is its own wish, `flow` the priority-and-fairness schema."""

    def __init__(self, code: int, status: StatusAnswer, asked: str, retry_after: float, flow: str) -> None:
        super().__init__(code, status, asked)
        self.retry_after = retry_after
        self.flow = flow


class ServerFault(ApiError):
    """The server failed (5xx); it may be asked again."""


_BY_CODE = {401: Unauthorized, 403: Forbidden, 404: NotFound, 409: Conflict, 410: Gone, 422: Invalid}
_BY_REASON = {"AlreadyExists": AlreadyExists, "Expired": Gone}
_BY_CAUSE = {
    "FieldManagerConflict": OwnershipConflict,
    "DisruptionBudget": DisruptionRefused,
    "NamespaceTerminating": NamespaceEnds,
}


def read_status(body: bytes) -> StatusAnswer:
    try:
        return msgspec.json.decode(body, type=StatusAnswer)
    except UNDECODABLE:  # whatever a proxy in between has said
        return StatusAnswer(message=body[:200].decode(errors="replace").strip())


def refusal(body: bytes, asked: str, code: int = 0, headers: Mapping[str, str] = NONE) -> ApiError:
    """The error for an answer of 400 or above; without a code, for one that came inside a stream."""
    status = read_status(body)
    code = code or status.code or 500
    for cause in status.causes:
        if cause.reason in _BY_CAUSE:
            return _BY_CAUSE[cause.reason](code, status, asked)
    retry_after = headers.get("Retry-After", "")
    if code == 429 or (code >= 500 and retry_after.isdigit()):
        wait = max(float(retry_after), 1.0) if retry_after.isdigit() else 1.0
        return Throttled(code, status, asked, wait, headers.get(FLOW_SCHEMA, ""))
    kind = _BY_REASON.get(status.reason) or _BY_CODE.get(code) or (ServerFault if code >= 500 else ApiError)
    return kind(code, status, asked)
