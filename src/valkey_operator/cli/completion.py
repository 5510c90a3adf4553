"""`kubectl valkey completion`: the script with which kubectl completes the plugin's commands and kinds.

kubectl runs a program called kubectl_complete-valkey with the words typed so far and takes a line a proposal.
"""

from __future__ import annotations

import argparse

from valkey_operator.api.layers import APPLIES
from valkey_operator.cli.command import Answer, Command

SCRIPT = """\
#!/bin/sh
# Save as kubectl_complete-valkey on the PATH and make it executable.
case "$#" in
    1) printf '%s\\n' {commands} ;;
    2) case "$1" in
        effective) printf '%s\\n' {kinds} ;;
        status | switchover | rollback) kubectl get valkeys,valkeyclusters --output=name 2>/dev/null | sed 's#.*/##' ;;
        reshard | cancel) kubectl get valkeyclusters --output=name 2>/dev/null | sed 's#.*/##' ;;
    esac ;;
    3) [ "$1" = effective ] && kubectl get "$2" --output=name 2>/dev/null | sed 's#.*/##' ;;
esac
echo :4
"""


def run(options: argparse.Namespace) -> Answer:  # noqa: ARG001 - it asks for nothing
    kinds = " ".join(kind.lower() for kind in APPLIES)
    commands = "status switchover reshard cancel rollback effective convert version completion"
    return Answer(SCRIPT.format(commands=commands, kinds=kinds).rstrip())


COMMAND = Command(
    "completion",
    "Print a script that completes commands and kinds; save it on the PATH as kubectl_complete-valkey.",
    run,
)
