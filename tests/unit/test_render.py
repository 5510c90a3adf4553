"""What is rendered for a Valkey and a ValkeyCluster, compared with files that a person has read: `tests/golden/`.

After a change that is meant: GOLDEN=write uv run pytest tests/unit/test_render.py, and read the difference.
"""

from __future__ import annotations

import base64
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from valkey_operator.api import layers
from valkey_operator.api.status import DisruptionStatus
from valkey_operator.api.tls import BUS_PORTS
from valkey_operator.model.deployment import Deployment
from valkey_operator.render import exporter, marks, pod
from valkey_operator.render.bus import bus_port
from valkey_operator.render.connection import connection_secret
from valkey_operator.render.disruption import disruption_budget
from valkey_operator.render.disruption import status as disruption_status
from valkey_operator.render.node import NodeObjects, fingerprint, valkey_node
from valkey_operator.render.pod import OperatorPlace
from valkey_operator.render.server_config import valkey_conf
from valkey_operator.render.service import services, unwanted_services
from valkey_operator.render.system_users import system_users
from valkey_operator.render.users import RULES, SIDECAR, secret_name

OPERATOR = OperatorPlace("valkey-operator/operator:1", "valkey-system")
GOLDEN = Path(__file__).parents[1] / "golden"


def deployment(**spec: Any) -> Deployment:
    values = layers.effective("Valkey", spec).values
    return Deployment("Valkey", "demo", "prod", "uid-1", values)


def cluster(**spec: Any) -> Deployment:
    values = layers.effective("ValkeyCluster", spec).values
    return Deployment("ValkeyCluster", "demo", "prod", "uid-1", values)


def rendered(**spec: Any) -> str:
    """Every object of a Valkey, with those of its first node, as YAML."""
    wanted = deployment(**spec)
    members = [f"demo-{index}" for index in range(spec.get("replicas", 1))]
    node = valkey_node(wanted, "demo-0", "demo-0", 1, OPERATOR, members)
    return written(wanted, "demo-0", node, len(members))


def rendered_cluster(shards: int, replicas: int) -> str:
    """The same of a ValkeyCluster, with the first node of its first shard."""
    wanted = cluster(shards=shards, replicas=replicas)
    members = [f"demo-0-{index}" for index in range(replicas)]
    node = valkey_node(wanted, "demo-0-0", "demo-0-0", 0, OPERATOR, members)
    return written(wanted, "", node, shards * replicas)


def written(wanted: Deployment, primary: str, node: dict[str, Any], count: int) -> str:
    stored = {
        **node, "apiVersion": "valkey.io/v1alpha1", "kind": "ValkeyNode",
        "metadata": {**node["metadata"], "uid": "uid-2"},
    }  # fmt: skip
    objects = NodeObjects(stored)
    parts = [
        *services(wanted, primary),
        connection_secret(wanted),
        disruption_budget(wanted, count),
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
        (
            "replicated",
            {
                "replicas": 3,
                "readService": {"enabled": True},
                "service": {"type": "LoadBalancer", "annotations": {"lb.example.com/internal": "true"}},
                "exporter": {"enabled": True, "resources": {"limits": {"memory": "64Mi"}}},
            },
        ),
    ],
)
def test_what_is_rendered_is_what_was_read(name: str, spec: dict[str, Any]) -> None:
    text = rendered(**spec)
    assert text == read(name, text)


def test_what_is_rendered_for_a_cluster_is_what_was_read() -> None:
    """With the fingerprint of what its pods are made from: another one restarts every server there is."""
    text = rendered_cluster(3, 2)
    assert text == read("cluster", text)
    assert f"{marks.TEMPLATE}: " in text


def read(name: str, text: str) -> str:
    file = GOLDEN / f"{name}.yaml"
    if os.environ.get("GOLDEN") == "write":
        file.write_text(text)
    return file.read_text()


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
    ],
)
def test_a_directive_for_a_field(spec: dict[str, Any], line: str) -> None:
    assert line in valkey_conf(deployment(**spec)).splitlines()


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ({}, "cluster-enabled yes"),
        ({}, "cluster-port 19095"),
        ({}, "cluster-node-timeout 5000"),
        ({"cluster": {"nodeTimeout": "1s500ms"}}, "cluster-node-timeout 1500"),
        ({}, "cluster-allow-replica-migration no"),
        ({}, "repl-diskless-sync-delay 0"),
        ({"cluster": {"allowReadsWhenDown": True}}, "cluster-allow-reads-when-down yes"),
        ({"cluster": {"replicaReadOnly": False}}, "replica-read-only no"),
    ],
)
def test_a_directive_of_a_cluster(spec: dict[str, Any], line: str) -> None:
    assert line in valkey_conf(cluster(**spec)).splitlines()
    assert not any("cluster-" in line for line in valkey_conf(deployment()).splitlines())


def test_clusters_do_not_find_each_other_where_addresses_are_used_again() -> None:
    names = [("a", "cache"), ("b", "cache"), ("a", "other")]
    ports = {bus_port(Deployment("ValkeyCluster", name, space, "uid", {})) for space, name in names}
    assert len(ports) == 3
    assert all(port in BUS_PORTS for port in ports)


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


def contents(secret: dict[str, Any]) -> dict[str, str]:
    return {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}


def test_the_users_file_names_the_default_user_and_holds_no_password() -> None:
    passwords = {user: f"secret-{index}" for index, user in enumerate(RULES)}
    found = contents(system_users(deployment(), passwords))
    assert found["users.acl"].startswith("user default ")
    assert "secret" not in found["users.acl"]
    assert found["users.acl"].count(" on #") == len(RULES)
    assert sorted(found) == ["exporter.json", "replication-password", "sidecar-password", "users.acl"]


def test_in_a_cluster_nobody_but_the_sidecar_may_merge_it_with_another() -> None:
    passwords = dict.fromkeys(RULES, "secret")
    default, *others = contents(system_users(replace(deployment(), kind="ValkeyCluster"), passwords))[
        "users.acl"
    ].splitlines()
    assert default.endswith("+@all -cluster|meet -cluster|reset")
    assert any("+cluster " in line for line in others if SIDECAR in line)


def template(**spec: Any) -> dict[str, Any]:
    node = valkey_node(deployment(**spec), "demo-0", "demo-0", 1, OPERATOR, ["demo-0"])
    found: dict[str, Any] = node["spec"]["podTemplate"]["spec"]
    return found


def test_an_exporter_changes_what_the_pod_is_made_from_and_nothing_else_does() -> None:
    without, beside = template(), template(exporter={"enabled": True})
    assert template(exporter={"enabled": False, "port": 9999}) == without
    assert fingerprint(beside) != fingerprint(without)


def test_the_exporter_sees_no_file_of_the_server_and_one_password_only() -> None:
    pod = template(exporter={"enabled": True})
    _, server, beside = pod["containers"]
    assert [mount["name"] for mount in beside["volumeMounts"]] == ["exporter"]
    [seen] = [volume for volume in pod["volumes"] if volume["name"] == "exporter"]
    assert seen["secret"] == {
        "secretName": secret_name("demo"),
        "items": [{"key": exporter.PASSWORD_FILE, "path": exporter.PASSWORD_FILE}],
    }
    user = beside["securityContext"]["runAsUser"]
    assert user != pod["securityContext"]["runAsUser"]
    assert {**beside["securityContext"], "runAsUser": 0} == {**server["securityContext"], "runAsUser": 0}


def test_where_the_platform_chooses_the_user_it_chooses_the_exporters_too() -> None:
    wanted = deployment(exporter={"enabled": True})
    values = {**wanted.values, "securityContext": {"runAsNonRoot": True}}
    chosen = exporter.container(replace(wanted, values=values), {})
    assert "runAsUser" not in chosen["securityContext"]


def test_the_status_says_where_metrics_are() -> None:
    assert exporter.status(deployment()) == {"enabled": False}
    assert exporter.status(deployment(exporter={"enabled": True, "port": 9200})) == {
        "enabled": True,
        "metricsEndpoint": "http://demo-metrics.prod.svc:9200/metrics",
    }


def test_a_service_that_is_no_longer_asked_for_is_named() -> None:
    assert unwanted_services(deployment()) == ["demo-read", "demo-metrics"]
    asked = deployment(readService={"enabled": True}, exporter={"enabled": True})
    assert unwanted_services(asked) == []
    made = [service["metadata"]["name"] for service in services(asked, "demo-0")]
    assert made == ["demo", "demo-headless", "demo-read", "demo-metrics"]


def test_applications_find_the_service_for_reads_where_there_is_one() -> None:
    assert contents(connection_secret(deployment())) == {
        "host": "demo.prod.svc", "port": "6379", "uri": "redis://demo.prod.svc:6379",
    }  # fmt: skip
    both = contents(connection_secret(deployment(readService={"enabled": True})))
    assert (both["readHost"], both["readUri"]) == ("demo-read.prod.svc", "redis://demo-read.prod.svc:6379")


@pytest.mark.parametrize(
    ("spec", "nodes", "least"),
    [
        ({"replicas": 3}, 0, 2),
        ({"replicas": 3}, 3, 2),
        ({"replicas": 2, "disruption": {"mode": "Budget"}}, 2, 1),
        ({"replicas": 3, "disruption": {"mode": "None"}}, 3, None),
        ({"replicas": 1}, 1, None),
        ({"replicas": 0}, 0, None),
        ({"replicas": 1}, 3, 2),
        ({"replicas": 0}, 3, 2),
    ],
)
def test_one_pod_at_a_time_may_be_evicted_and_a_lone_one_always(
    spec: dict[str, Any], nodes: int, least: int | None
) -> None:
    budget = disruption_budget(deployment(**spec), nodes)
    assert (budget and budget["spec"]["minAvailable"]) == least


def test_shards_that_are_to_go_are_held_until_they_are_gone() -> None:
    """Six of two are to be three: twelve pods run, and own slots until these have moved."""
    budgets = [disruption_budget(cluster(shards=3, replicas=2), nodes) for nodes in (12, 6)]
    assert [budget and budget["spec"]["minAvailable"] for budget in budgets] == [11, 5]


def test_the_budget_holds_the_pods_that_carry_its_label() -> None:
    budget = disruption_budget(deployment(replicas=3), 3)
    node = valkey_node(deployment(replicas=3), "demo-0", "demo-0", 1, OPERATOR, ["demo-0"])
    labels = node["spec"]["podTemplate"]["metadata"]["labels"]
    assert budget
    assert budget["spec"]["selector"]["matchLabels"].items() <= labels.items()


@pytest.mark.parametrize(
    ("carries", "observed", "change"),
    [
        ({}, "replica", {"valkey.io/role": "replica"}),
        ({"valkey.io/role": "replica"}, "primary", {"valkey.io/role": "primary"}),
        ({"valkey.io/role": "primary"}, "primary", {}),
        ({"valkey.io/role": "primary"}, "unknown", {}),
        ({}, "", {}),
    ],
)
def test_a_pod_says_what_its_server_was_last_seen_to_be(
    carries: dict[str, str], observed: str, change: dict[str, str]
) -> None:
    assert marks.role_change(carries, observed) == change


def test_a_pod_is_not_in_the_service_for_reads_before_its_server_was_seen_to_follow() -> None:
    wanted = deployment(replicas=3, readService={"enabled": True})
    [reads] = [each for each in services(wanted, "demo-0") if each["metadata"]["name"] == "demo-read"]
    node = valkey_node(wanted, "demo-1", "demo-0", 1, OPERATOR, ["demo-0", "demo-1"])
    labels = node["spec"]["podTemplate"]["metadata"]["labels"]
    selector = reads["spec"]["selector"]
    assert not selector.items() <= labels.items()
    assert selector.items() <= {**labels, **marks.role_change(labels, "replica")}.items()


def test_no_label_of_people_takes_the_place_of_ours() -> None:
    """Also where a wish is refused: certificates are made all the same."""
    theirs = {"valkey.io/role": "replica", marks.CLUSTER: "x", marks.COMPONENT: "x", "team": "a"}
    wanted = deployment(labels=theirs, annotations={"valkey.io/leads-to": "x", marks.CUSTOM_RESOURCE: "x"})
    for found in (
        pod.template(wanted, "demo-0", OPERATOR)["metadata"],
        marks.metadata(wanted, "demo", "node"),
    ):
        assert marks.ROLE not in found["labels"]
        assert marks.LEADS_TO not in found["annotations"]
        assert found["annotations"][marks.CUSTOM_RESOURCE] == "demo"
        assert found["labels"][marks.CLUSTER] == "demo"
        assert found["labels"][marks.COMPONENT] != "x"
        assert found["labels"]["team"] == "a"


def apart(wanted: Deployment, node: str) -> dict[str, Any]:
    found: dict[str, Any] = pod.template(wanted, node, OPERATOR)["spec"].get("affinity", {})
    return found


def test_those_that_replace_each_other_are_kept_apart_unless_people_have_wishes_of_their_own() -> None:
    grid = cluster()
    labels = pod.template(grid, "demo-12-1", OPERATOR)["metadata"]["labels"]
    terms = apart(grid, "demo-12-1")["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    keys = [each["podAffinityTerm"]["topologyKey"] for each in terms]
    assert keys == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"] * 2
    weights = [each["weight"] for each in terms]
    assert weights == sorted(weights, reverse=True), "first the data, first the machine"
    own = {marks.SHARD: "12"}, {marks.SHARD: "12"}, {marks.NUMBER: "1"}, {marks.NUMBER: "1"}
    for term, place in zip(terms, own, strict=True):
        assert term["podAffinityTerm"]["labelSelector"]["matchLabels"] == {**marks.pods(grid), **place}
    assert {**marks.pods(grid), marks.SHARD: "12", marks.NUMBER: "1"}.items() <= labels.items()
    near: dict[str, Any] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    assert apart(deployment(affinity=near), "demo-0").keys() == {"nodeAffinity", "podAntiAffinity"}
    wished: dict[str, Any] = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    assert apart(deployment(affinity=wished), "demo-0") == wished
    spread = [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}]
    assert apart(deployment(topologySpreadConstraints=spread), "demo-0") == {}


def test_pods_with_the_same_data_are_spread_where_nobody_says_which() -> None:
    """Without a selector Kubernetes counts no pods at all."""
    wished: dict[str, Any] = {
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
    }  # fmt: skip
    own = {**wished, "labelSelector": {"matchLabels": {"team": "shop"}}}
    grid = replace(deployment(topologySpreadConstraints=[wished, own]), kind="ValkeyCluster")
    first, second = pod.template(grid, "demo-12-1", OPERATOR)["spec"]["topologySpreadConstraints"]
    assert first == {**wished, "labelSelector": {"matchLabels": {**marks.pods(grid), marks.SHARD: "12"}}}
    assert second == own
    one = deployment(topologySpreadConstraints=[wished])
    [only] = pod.template(one, "demo-0", OPERATOR)["spec"]["topologySpreadConstraints"]
    assert only["labelSelector"]["matchLabels"] == marks.pods(one)


@pytest.mark.parametrize(
    ("spec", "mode", "said"),
    [
        (
            {"replicas": 3},
            "Budget",
            "one pod at a time may be evicted; Guarded acts as Budget until it is built",
        ),
        ({"replicas": 3, "disruption": {"mode": "Budget"}}, "Budget", "one pod at a time may be evicted"),
        ({"replicas": 3, "disruption": {"mode": "None"}}, "None", "any pod may be evicted"),
        ({"replicas": 1}, "None", "any pod may be evicted"),
    ],
)
def test_the_status_says_what_holds_evictions_back(spec: dict[str, Any], mode: str, said: str) -> None:
    shown = disruption_status(deployment(**spec))
    assert shown == {"mode": mode, "message": said}
    DisruptionStatus.model_validate(shown)
