"""What is rendered for a Valkey, compared with files that a person has read: `tests/golden/`.

After a change that is meant: GOLDEN=write uv run pytest tests/unit/test_render.py, and read the difference.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from valkey_operator.api import layers
from valkey_operator.model.deployment import Deployment
from valkey_operator.render.node import NodeObjects, valkey_node
from valkey_operator.render.pod import OperatorPlace
from valkey_operator.render.server_config import valkey_conf
from valkey_operator.render.service import primary_service
from valkey_operator.render.users import REPLICATION, SIDECAR, users_acl

OPERATOR = OperatorPlace("valkey-operator/operator:1", "valkey-system")
GOLDEN = Path(__file__).parents[1] / "golden"


def deployment(**spec: Any) -> Deployment:
    values = layers.effective("Valkey", spec).values
    return Deployment("Valkey", "demo", "prod", "uid-1", values)


def rendered(**spec: Any) -> str:
    """Every object of a Valkey of one pod, as YAML."""
    wanted = deployment(**spec)
    node = valkey_node(wanted, "demo-0", "demo-0", 1, OPERATOR, ["demo-0"])
    stored = {
        **node, "apiVersion": "valkey.io/v1alpha1", "kind": "ValkeyNode",
        "metadata": {**node["metadata"], "uid": "uid-2"},
    }  # fmt: skip
    objects = NodeObjects(stored)
    parts = [
        primary_service(wanted, "demo-0"),
        objects.config_map(),
        objects.service(),
        objects.claim(),
        objects.stateful_set(),
    ]
    return yaml.safe_dump_all([part for part in parts if part], sort_keys=False, width=120)


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("standalone", {}),
        (
            "cache",
            {
                "persistence": {"enabled": False, "rdb": {"enabled": False}},
                "resources": {"limits": {"memory": "1Gi"}},
                "config": {"maxmemory-policy": "allkeys-lru"},
                "nodeSelector": {"disk": "fast"},
                "labels": {"team": "red"},
            },
        ),
    ],
)
def test_what_is_rendered_is_what_was_read(name: str, spec: dict[str, Any]) -> None:
    file, text = GOLDEN / f"{name}.yaml", rendered(**spec)
    if os.environ.get("GOLDEN") == "write":
        file.write_text(text)
    assert text == file.read_text()


def test_the_same_in_gives_the_same_out() -> None:
    assert rendered(labels={"b": "1", "a": "2"}) == rendered(labels={"b": "1", "a": "2"})


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ({}, "save 900 1 300 10 60 10000"),
        ({"persistence": {"rdb": {"enabled": False}}}, 'save ""'),
        ({"persistence": {"aof": {"enabled": True, "fsync": "always"}}}, "appendfsync always"),
        ({"resources": {"limits": {"memory": "1Gi"}}}, f"maxmemory {int(2**30 * 0.70)}"),
        (
            {"resources": {"limits": {"memory": "1Gi"}}, "persistence": {"enabled": False}},
            f"maxmemory {int(2**30 * 0.85)}",
        ),
        ({"replication": {"minReplicasToWrite": 1}}, "min-replicas-to-write 1"),
        ({}, "cluster-port 16379"),
    ],
)
def test_a_directive_for_a_field(spec: dict[str, Any], line: str) -> None:
    assert line in valkey_conf(deployment(**spec)).splitlines()


@pytest.mark.parametrize(
    ("config", "lines"),
    [
        ({"appendonly": "yes"}, ["appendonly yes"]),
        ({"appendonly": True}, ["appendonly yes"]),
        ({"save": ""}, ['save ""']),
        ({"save": "60 1"}, ["save 60 1"]),
        ({"hz": 20}, ["hz 20"]),
        (
            {"client-output-buffer-limit": ["normal 0 0 0", "pubsub 1mb 1mb 1"]},
            ["client-output-buffer-limit normal 0 0 0 pubsub 1mb 1mb 1"],
        ),
        ({"loadmodule": ["/a.so x", "/b.so"]}, ["loadmodule /a.so x", "loadmodule /b.so"]),
    ],
)
def test_what_people_set_stands_there_once_and_wins(config: dict[str, Any], lines: list[str]) -> None:
    text = valkey_conf(deployment(config=config)).splitlines()
    name = lines[0].split(" ")[0]
    assert [line for line in text if line.split(" ")[0] == name] == lines


def test_the_users_file_names_the_default_user_and_holds_no_password() -> None:
    text = users_acl({SIDECAR: "secret-1", REPLICATION: "secret-2"})
    assert text.startswith("user default ")
    assert "secret" not in text
    assert text.count(" on #") == 2
