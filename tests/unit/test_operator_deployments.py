"""Which values a deployment has, and what it must have, by the defaults that are there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from valkey_operator.kube.objects import Key, ManagedMetadata
from valkey_operator.operator.deployments import Deployments
from valkey_operator.operator.seen import Custom


def _custom(name: str, namespace: str, **spec: Any) -> Custom:
    return Custom(ManagedMetadata(name, namespace), spec=spec)


def test_what_is_required_comes_from_the_defaults_of_both_namespaces() -> None:
    system = _custom("defaults", "system", require={"tls": True}, image="a:1")
    own = _custom("defaults", "prod", require={"tls": False, "auth": True})
    mine = _custom("demo", "prod", replicas=3)
    defaults: Any = SimpleNamespace(
        store={Key(item.metadata.namespace, "defaults"): item for item in (system, own)}
    )
    kinds: Any = {"Valkey": SimpleNamespace(store={Key("prod", "demo"): mine})}
    found = Deployments(kinds, defaults, "system").find("Valkey", Key("prod", "demo"))
    assert found is not None
    assert found.value("image") == "a:1"
    assert found.required == {
        "tls": "defaults of namespace system",
        "auth": "defaults of namespace prod",
    }
    assert found.lent == {"image": "defaults of namespace system"}
