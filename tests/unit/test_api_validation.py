"""What CEL cannot see is refused in one place, with sentences that help."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from valkey_operator.api.directives import OWNED, known
from valkey_operator.api.layers import Layer, effective
from valkey_operator.api.quantity import quantity_bytes
from valkey_operator.api.tls import BUS_PORTS
from valkey_operator.api.validation import faults, server_version, validity_span
from valkey_operator.render.pod import CHANNEL_PORT, PROBE_PORT, SERVER_PORT


def _said(spec: dict[str, Any], kind: str = "Valkey") -> list[str]:
    return [str(fault) for fault in faults(kind, effective(kind, spec).values)]


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"dir": "/elsewhere"}, "spec.config.dir: dir is the operator's: data is in /data"),
        ({"requirepass": "x"}, "requirepass is the operator's: use auth.password"),
        ({"tls-port": 6380}, "tls-port is the operator's: use tls"),
        ({"cluster-announce-ip": "1.2.3.4"}, "the operator announces each server's address"),
        ({"maxmemory-polcy": "noeviction"}, "maxmemory-polcy is no directive of Valkey; did you mean maxmemory-pol"),
        ({"qqqqqq": 1}, "qqqqqq is no directive of Valkey"),
        ({"maxmemory-policy": "noeviction\nport 1"}, "maxmemory-policy has a line break in it"),
        ({"timeout": "soon"}, "timeout is soon; it must be a whole number"),
        ({"appendonly": "maybe"}, "appendonly is maybe; it must be yes or no"),
        ({"maxmemory": "lots"}, "maxmemory is lots; it must be a size such as 100mb"),
        ({"maxmemory-policy": "random"}, "maxmemory-policy is random; it must be one of volatile-lru"),
        ({"min-replicas-to-write": 1}, "min-replicas-to-write is the operator's: use replication.minReplicasToWrite"),
        ({"min-slaves-max-lag": 5}, "min-slaves-max-lag is the operator's: use replication.minReplicasMaxLag"),
        ({"repl-ping-slave-period": 5}, "repl-ping-slave-period is the old name of repl-ping-replica-period; write"),
        ({"cluster-slave-no-failover": "no"}, "is the operator's: the sidecar decides which replica may be elected"),
        ({"maxmemory": "75%"}, "maxmemory is 75%; it must be a size such as 100mb"),
        ({"maxmemory-clients": "101%"}, "maxmemory-clients is 101%; it must be a size such as 100mb, or a part such"),
        ({"databases": 0}, "databases is 0; it must be from 1 to 2147483647"),
        ({"io-threads": "300"}, "io-threads is 300; it must be from 1 to 256"),
        ({"save": "900"}, "save is 900; it must be pairs of seconds and changes such as 900 1 300 10"),
        ({"save": ["900 1", "x 10"]}, "save is 900 1 x 10; it must be pairs"),
        ({"save": '"" 900 1'}, "it must be pairs"),
        ({"save": '"900 1" "300 10"'}, "it must be pairs"),
        ({"save": "0 1"}, "it must be pairs"),
        ({"client-output-buffer-limit": 'normal "0 0 0'}, "servers find no end of a quote in it: close the quote"),
        ({"notify-keyspace-events": 'K "E'}, "notify-keyspace-events is K \"E; it must be letters of Ag$lsh"),
        ({"notify-keyspace-events": ["K", "E"]}, "notify-keyspace-events is K E; it must be letters of Ag$lsh"),
        ({"syslog-facility": "mine"}, "syslog-facility is mine; it must be one of user, local0"),
        ({"loadmodule": {"a": "b"}}, "loadmodule must be the path of a module with its arguments, or a list of"),
        ({"loadmodule": ""}, "loadmodule must be the path of a module"),
        ({"loadmodule": []}, "loadmodule must be the path of a module"),
        ({"loadmodule": ["/a.so", " "]}, "loadmodule must be the path of a module"),
        ({"loadmodule": ["/a.so", 5]}, "loadmodule must be the path of a module"),
        ({"timeout": {"seconds": 1}}, "timeout must be text, a number, true or false, or a list of text"),
    ],
)  # fmt: skip
def test_a_directive_that_cannot_stand_is_refused(config: dict[str, Any], sentence: str) -> None:
    (said,) = _said({"config": config})
    assert sentence in said


@pytest.mark.parametrize(
    "config",
    [
        {"maxmemory": "2gb", "maxmemory-policy": "allkeys-lru", "timeout": 300, "tcp-keepalive": "60"},
        {
            "slowlog-log-slower-than": 10000,
            "cluster-node-timeout": 15000,
            "cluster-replica-validity-factor": 10,
        },
        {"appendonly": True, "maxmemory-clients": "5%", "shutdown-on-sigterm": "save now"},
        {"save": ["900 1", "300 10"], "loadmodule": "/modules/json.so"},
        {"save": [], "loadmodule": ["/modules/json.so", "/modules/bloom.so initial 5"], "databases": 1},
        {"proc-title-template": "{title} shop", "syslog-ident": "my shop", "notify-keyspace-events": "KEA"},
    ],
)
def test_a_directive_that_servers_take_is_taken(config: dict[str, Any]) -> None:
    assert _said({"config": config}) == []


def test_a_directive_of_another_version_is_refused_by_name() -> None:
    config = {"config": {"cluster-databases": 16}}
    assert _said({**config, "image": "valkey/valkey:9.1"}) == []
    (said,) = _said({**config, "image": "valkey/valkey:8.1.1"})
    assert said == "spec.config.cluster-databases: cluster-databases is not known to Valkey 8.1, only to 9.1"
    # A version we have not asked is not judged.
    assert _said({**config, "image": "valkey/valkey:7.2"}) == []


def test_layers_that_break_a_rule_only_together_are_refused_with_its_sentence() -> None:
    defaults = [Layer("defaults of payments", {"tls": {"disablePlaintextPort": False}})]
    values = effective("Valkey", {"tls": {"enabled": True}}, defaults).values
    (fault,) = faults("Valkey", values)
    assert str(fault) == (
        "spec.tls: with disablePlaintextPort false, plaintext keeps port 6379: set port to another one, such as 6380"
    )
    (fault,) = faults("ValkeyPool", values)
    assert fault.field == "spec.template.tls"


def test_all_that_is_wrong_is_said_at_once() -> None:
    assert len(_said({"config": {"dir": "/", "timeout": "x", "nonsense": 1}})) == 3


@pytest.mark.parametrize("kind", ["Valkey", "ValkeyCluster"])
def test_a_primary_that_could_never_have_enough_replicas_is_refused(kind: str) -> None:
    spec = {"shards": 3, "replicas": 2} if kind == "ValkeyCluster" else {"replicas": 2}
    [said] = _said({**spec, "replication": {"minReplicasToWrite": 2}}, kind)
    assert said.startswith(
        "spec.replication.minReplicasToWrite: a primary waits for 2 replicas before it writes"
    )
    assert "replicas: 2 leaves it 1" in said
    assert "raise replicas to 3, or lower this" in said
    assert _said({**spec, "replication": {"minReplicasToWrite": 1}}, kind) == []
    assert _said({**spec, "replicas": 0, "replication": {"minReplicasToWrite": 1}}, kind) == [], "suspended"


def test_maxmemory_above_the_limit_is_refused() -> None:
    spec = {"config": {"maxmemory": "2gb"}, "resources": {"limits": {"memory": "1Gi"}}}
    (said,) = _said(spec)
    assert "maxmemory is 2gb, more than the memory limit of 1Gi" in said
    assert _said({**spec, "config": {"maxmemory": "1gb"}}) == []


@pytest.mark.parametrize("port", [SERVER_PORT, PROBE_PORT, CHANNEL_PORT, BUS_PORTS.start, BUS_PORTS.stop - 1])
def test_the_metrics_have_a_port_of_their_own(port: int) -> None:
    (said,) = _said({"exporter": {"enabled": True, "port": port}})
    assert said.startswith(
        "spec.exporter: ports 6379, 8080, 9443 and 17000 to 25999 are for the server, the sidecar"
    )
    assert _said({"exporter": {"enabled": True, "port": port + 20_000}}) == []


def test_the_metrics_are_not_at_the_port_of_tls() -> None:
    (said,) = _said({"exporter": {"port": 6380}, "tls": {"enabled": True, "port": 6380}})
    assert said == (
        "spec.exporter.port: the server listens at 6380, by tls.port; take another one, such as 9121"
    )
    assert _said({"exporter": {"port": 6380}, "tls": {"enabled": True, "port": 6381}}) == []


@pytest.mark.parametrize("window", ["61 4 * * *", "0 25 * * *", "0 4 30 2 *", "0 4 * * mo-", "x 4 * * *"])
def test_a_window_that_never_opens_is_refused(window: str) -> None:
    (said,) = _said({"update": {"window": window}})
    assert said.startswith(f"spec.update.window: {window} is not a cron time")
    (said,) = _said({"tls": {"restartWindow": window}})
    assert said.startswith(f"spec.tls.restartWindow: {window} is not a cron time")


@pytest.mark.parametrize("window", ["0 4 * * 6,0", "*/15 * * * *", "30 2 1 1-6 MON"])
def test_a_window_that_opens_is_taken(window: str) -> None:
    assert _said({"update": {"window": window}}, "Sentinel") == []


def test_login_by_certificate_needs_valkey_9() -> None:
    tls = {"enabled": True, "clientAuthUser": "CN"}
    assert _said({"image": "valkey/valkey:9.1", "tls": tls}) == []
    (said,) = _said({"image": "valkey/valkey:8.0", "tls": tls})
    assert "clientAuthUser needs Valkey 9 and the image is 8.0" in said


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("valkey/valkey:9.1", "9.1"),
        ("registry:5000/valkey/valkey:8.1.3-alpine", "8.1"),
        ("registry:5000/valkey/valkey", None),
        ("valkey/valkey:latest", None),
        ("valkey/valkey:8.0@sha256:" + "0" * 64, "8.0"),
    ],
)
def test_the_version_is_read_from_the_tag(image: str, version: str | None) -> None:
    assert server_version(image) == version


@pytest.mark.parametrize(
    ("text", "size"), [("1Gi", 1 << 30), ("1.5G", 1_500_000_000), ("x", None), (2048, 2048)]
)
def test_quantities_are_read_as_kubernetes_reads_them(text: str | int, size: int | None) -> None:
    assert quantity_bytes(text) == size


def test_what_the_operator_owns_is_a_directive_or_stands_in_files_only() -> None:
    assert set(OWNED) - set(known()) <= {"include", "rename-command", "user"}


@pytest.mark.parametrize(
    ("text", "span"),
    [("1m", timedelta(minutes=1)), ("12h", timedelta(hours=12)), ("90d", timedelta(days=90)),
     ("2mo", timedelta(days=60)), ("1y", timedelta(days=365))],
)  # fmt: skip
def test_a_validity_is_a_span_of_time(text: str, span: timedelta) -> None:
    assert validity_span(text) == span


def test_what_is_no_validity_is_said() -> None:
    with pytest.raises(ValueError, match="'soon' is no validity: write a number"):
        validity_span("soon")


@pytest.mark.parametrize("field", ["labels", "annotations", "service.annotations"])
@pytest.mark.parametrize("key", ["valkey.io/role", "valkey.io/node", "mtls.valkey.io/x"])
def test_a_key_of_the_operator_is_refused_by_its_name(field: str, key: str) -> None:
    block, _, inner = field.partition(".")
    spec = {block: {inner: {key: "replica"}} if inner else {key: "replica"}}
    (said,) = _said(spec, "ValkeyCluster")
    assert (
        said == f"spec.{field}.{key}: {key} is the operator's own key; take it out, or use a key of your own"
    )
    (said,) = _said(spec, "ValkeyPool")
    assert said.startswith(f"spec.template.{field}.{key}: ")


def test_keys_of_others_are_taken() -> None:
    labels = {
        "team": "a",
        "app.kubernetes.io/part-of": "shop",
        "notvalkey.io/role": "x",
        "valkey.io": "plain",
    }
    assert _said({"labels": labels, "annotations": {"prometheus.io/scrape": "true"}}) == []


def test_what_is_chosen_by_our_labels_is_not_labelled_by_them() -> None:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                  "labelSelector": {"matchLabels": {"valkey.io/cluster": "demo"}}}  # fmt: skip
    assert _said({"topologySpreadConstraints": [constraint], "nodeSelector": {"valkey.io/pool": "x"}}) == []
