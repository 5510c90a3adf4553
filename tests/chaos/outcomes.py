"""The three outcomes of a write, and which error replies promise that it did not run."""

from enum import StrEnum


class Outcome(StrEnum):
    OK = "ok"  # the server said that it ran
    FAIL = "fail"  # the server said that it did not run, or nothing was ever sent
    INFO = "info"  # nobody knows: it may or may not have run


# Every one of these is answered before the command is executed. A code that is not listed here (ERR
# among them) is no such promise, so the write stays indeterminate.
REFUSALS = frozenset(
    {
        "ASK",
        "BUSY",
        "CLUSTERDOWN",
        "CROSSSLOT",
        "LOADING",
        "MASTERDOWN",
        "MISCONF",
        "MOVED",
        "NOAUTH",
        "NOPERM",
        "NOREPLICAS",
        "OOM",
        "READONLY",
        "REDIRECT",
        "TRYAGAIN",
        "WRONGTYPE",
    }
)


def outcome_of_error(text: str) -> Outcome:
    code = text.partition(" ")[0]
    return Outcome.FAIL if code in REFUSALS else Outcome.INFO
