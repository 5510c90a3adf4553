"""What the chart renders, compared with files that a person has read, and what it refuses.

After a change that is meant: GOLDEN=write uv run pytest tests/unit/test_chart.py, and read the difference. The chart
with its own values, and for some namespaces, is in deploy/.
"""

from __future__ import annotations

import json
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster import helm
from devcluster.command import CommandFailed, run
from devcluster.progress import Progress
from tools import chart
from valkey_operator.api.kinds import GROUP, KINDS

GOLDEN = Path(__file__).parents[1] / "golden" / "chart"
WITHOUT_CRDS: dict[str, Any] = {"crds": {"install": False}}
CASES: dict[str, dict[str, Any]] = {
    "smallest": {"replicas": 1},
    "everything": {
        "replicas": 3,
        "watch": {"namespaces": ["team-a", "valkey-system", "123"]},
        "image": {
            "registry": "registry.example.com/mirror/", "name": "valkey/operator", "tag": "1.2.3",
            "pullPolicy": "Always", "pullSecrets": [{"name": "registry"}],
        },
        "trustDomain": "example.com",
        "logLevel": "debug",
        "resources": {"requests": {"cpu": "1"}},
        "nodeSelector": {"kubernetes.io/arch": "arm64"},
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}},
        "tolerations": [{"key": "control-plane", "operator": "Exists"}],
        "priorityClassName": "system-cluster-critical",
        "networkPolicy": {
            "enabled": True, "apiServerPorts": [8443],
            "servers": {"namespaces": ["team-a", "123"], "clientsFrom": [{"podSelector": {"matchLabels": {}}}]},
            "metricsFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
        },
    },
    "guarded": {"networkPolicy": {"enabled": True, "servers": {"namespaces": ["team-b"]}}},
}  # fmt: skip


def objects(setting: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(chart.rendered(setting)) if each]


@cache
def found() -> list[chart.Value]:
    return chart.values((chart.CHART / "values.yaml").read_text())


@pytest.mark.parametrize("name", CASES)
def test_what_is_rendered_is_what_was_read(name: str) -> None:
    file, text = GOLDEN / f"{name}.yaml", chart.rendered({**WITHOUT_CRDS, **CASES[name]})
    if os.environ.get("GOLDEN") == "write":
        file.write_text(text)
    assert text == file.read_text()


def test_helm_finds_nothing_to_say_against_it() -> None:
    said = run(
        helm.program(Progress()), "lint", "--strict", f"--kube-version={chart.KUBERNETES}", chart.CHART
    )
    assert "0 chart(s) failed" in said


def test_crds_are_those_of_deploy_and_stay_when_the_release_goes() -> None:
    made = {each["metadata"]["name"]: each for each in objects({}) if each["kind"].startswith("Custom")}
    plain = [yaml.safe_load(file.read_text()) for file in (chart.DEPLOY / "crds").glob("*.yaml")]
    assert set(made) == {each["metadata"]["name"] for each in plain}
    for each in plain:
        each["metadata"]["annotations"] = {"helm.sh/resource-policy": "keep"}
        assert made[each["metadata"]["name"]] == each


def test_without_crds_there_are_none() -> None:
    assert not [each for each in objects(WITHOUT_CRDS) if each["kind"] == "CustomResourceDefinition"]


def warned_of(made: list[dict[str, Any]]) -> list[str]:
    policies = [each["spec"] for each in made if each["kind"] == "ValidatingAdmissionPolicy"]
    rules = [rule for spec in policies for rule in spec["matchConstraints"]["resourceRules"]]
    return [name for rule in rules for name in rule["resources"]]


@pytest.mark.parametrize("file", [None, "install.yaml", "install-namespaced.yaml"])
def test_kinds_that_nobody_looks_after_are_warned_of_and_not_refused(file: str | None) -> None:
    plain = yaml.safe_load_all((chart.DEPLOY / file).read_text()) if file else objects({})
    made = [each for each in plain if each]
    assert warned_of(made) == [kind.plural_name for kind in KINDS if not kind.is_built]
    (policy,) = [each for each in made if each["kind"] == "ValidatingAdmissionPolicy"]
    (rule,) = policy["spec"]["matchConstraints"]["resourceRules"]
    assert (rule["apiGroups"], rule["operations"]) == ([GROUP], ["CREATE", "UPDATE"])
    (validation,) = policy["spec"]["validations"]
    assert validation["expression"] == "false"
    assert validation["messageExpression"].startswith(
        'request.kind.kind + " is not looked after by this version of the operator: nothing will happen ('
    )
    (binding,) = [each for each in made if each["kind"] == "ValidatingAdmissionPolicyBinding"]
    assert binding["spec"] == {"policyName": policy["metadata"]["name"], "validationActions": ["Warn"]}


def test_without_crds_nobody_is_warned_of_their_kinds() -> None:
    assert warned_of(objects(WITHOUT_CRDS)) == []


def test_where_the_api_server_has_no_such_policies_there_are_none() -> None:
    bare = ("template", "valkey-operator", chart.CHART, f"--kube-version={chart.KUBERNETES}")
    text = run(helm.program(Progress()), *bare)
    assert "kind: CustomResourceDefinition" in text
    assert "ValidatingAdmissionPolicy" not in text


@pytest.mark.parametrize("name", CASES)
def test_every_pod_is_restricted(name: str) -> None:
    made = {each["kind"]: each["spec"] for each in objects({**WITHOUT_CRDS, **CASES[name]}) if "spec" in each}
    for spec in (made["Pod"], made["Deployment"]["template"]["spec"]):
        (container,) = spec["containers"]
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        }  # fmt: skip


def test_the_pod_of_helm_test_is_no_operator_to_the_service_and_the_budget() -> None:
    made = {each["kind"]: each for each in objects(WITHOUT_CRDS)}
    labels = made["Pod"]["metadata"]["labels"].items()
    assert made["Deployment"]["spec"]["template"]["metadata"]["labels"].items() >= selected(made["Service"])
    assert not labels >= selected(made["Service"])
    assert not labels >= made["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"].items()


def test_the_policy_for_servers_means_the_pods_that_the_operator_makes() -> None:
    """By their label and the names of their ports, which the operator's own tests have read."""
    (policy,) = [each for each in objects(CASES["guarded"]) if each["metadata"]["name"] == "valkey-servers"]
    made = list(yaml.safe_load_all((GOLDEN.parent / "cluster.yaml").read_text()))
    (template,) = [each["spec"]["template"] for each in made if "template" in each.get("spec", ())]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    ports = {
        port["name"] for container in template["spec"]["containers"] for port in container.get("ports", ())
    }
    assert {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]} <= ports


def selected(service: dict[str, Any]) -> Any:
    return service["spec"]["selector"].items()


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"watch": {"namespace": "a"}}, "at '/watch': additional properties 'namespace' not allowed"),
        ({"replica": 2}, "additional properties 'replica' not allowed"),
        ({"watch": None}, "at '': missing property 'watch'"),
        ({"image": None, "networkPolicy": None}, "at '': missing properties 'image', 'networkPolicy'"),
        ({"networkPolicy": {"servers": None}}, "at '/networkPolicy': missing property 'servers'"),
        ({"replicas": 0}, "at '/replicas': minimum: got 0, want 1"),
        ({"replicas": "two"}, "at '/replicas': got string, want integer"),
        ({"watch": {"namespaces": "a,b"}}, "at '/watch/namespaces': got string, want array"),
        ({"watch": {"namespaces": ["A"]}}, "at '/watch/namespaces/0': 'A' does not match pattern"),
        ({"logLevel": "loud"}, "at '/logLevel': value must be one of 'debug', 'info', 'warning', 'error'"),
        ({"image": {"pullSecrets": ["registry"]}}, "at '/image/pullSecrets/0': got string, want object"),
        ({"resources": {"memory": "1Gi"}}, "at '/resources': additional properties 'memory' not allowed"),
        (
            {"networkPolicy": {"apiServerPorts": []}},
            "at '/networkPolicy/apiServerPorts': minItems: got 0, want 1",
        ),
    ],
)
def test_bad_values_are_refused_with_a_sentence(setting: dict[str, Any], sentence: str) -> None:
    with pytest.raises(CommandFailed) as refused:
        chart.rendered(setting)
    assert sentence in refused.value.said


@pytest.mark.parametrize("name", ["on", "123", "1e3", "null"])
def test_a_release_and_a_namespace_may_be_called_as_what_is_no_text(name: str) -> None:
    """Kubernetes refuses labels and names that are numbers or booleans."""
    setting = {**CASES["everything"], **WITHOUT_CRDS, "priorityClassName": name}
    given = [f"--set-json={key}={json.dumps(value)}" for key, value in setting.items()]
    versions = (f"--kube-version={chart.KUBERNETES}", f"--namespace={name}")
    text = run(helm.program(Progress()), "template", name, chart.CHART, *versions, *given)
    bare = re.compile(rf": {name}$", re.MULTILINE)
    assert text.count(f'app.kubernetes.io/instance: "{name}"') > 10
    assert text.count(f'namespace: "{name}"') > 5
    assert f'priorityClassName: "{name}"' in text
    assert f'kubernetes.io/metadata.name: "{name}"' in text
    assert bare.findall(text) == []


def test_a_parent_chart_may_share_its_values() -> None:
    assert chart.rendered({"global": {"anything": 1}})


def test_every_value_is_described_and_in_schema_and_readme() -> None:
    schema = json.loads((chart.CHART / "values.schema.json").read_text())
    readme = (chart.CHART / "README.md").read_text()
    for value in found():
        part = schema
        for name in value.path:
            assert value.has_parts or part["additionalProperties"] is False
            part = part["properties"][name]
        assert value.has_parts or part["description"] == value.description != ""
        assert value.has_parts or f"| `{'.'.join(value.path)}` |" in readme


def test_every_right_says_why() -> None:
    lines = (chart.CHART / "templates" / "_rights.tpl").read_text().splitlines()
    rules = [number for number, line in enumerate(lines) if re.match(r"- (apiGroups|nonResourceURLs):", line)]
    assert len(rules) > 15
    assert [lines[number] for number in rules if not lines[number - 1].startswith("# ")] == []
