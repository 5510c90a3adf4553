"""With the operator's own rights: it may look at what came of a write, and remove what is no longer asked for."""

from __future__ import annotations

import json

from tests.e2e.conftest import PLACE, Place
from tests.e2e.test_one_node import SPEC
from valkey_operator.kube import access
from valkey_operator.kube.client import Client
from valkey_operator.kube.lease import Leadership
from valkey_operator.kube.objects import Key
from valkey_operator.kube.runtime import Runtime
from valkey_operator.operator.seen import DEFAULTS, VALKEY_CAS
from valkey_operator.operator.world import MANAGER, caches
from valkey_operator.settings.operator import OperatorSettings

# Only read.
NEVER_WRITTEN = ("nodes", str(DEFAULTS))


async def test_what_it_writes_it_may_look_at_when_no_answer_came(place: Place) -> None:
    token = place.cluster.kubectl("create", "token", MANAGER, "--namespace", PLACE).strip()
    way = access.with_token(access.from_kubeconfig(str(place.cluster.kubeconfig)), token)
    async with Client(way) as client:
        runtime = Runtime(client)
        caches(runtime, OperatorSettings(PLACE, "nobody_127.0.0.1_x", "image"))
        written = [each for each in runtime._informers if str(each.resource) not in NEVER_WRITTEN]
        assert len(written) > 10
        for informer in written:
            where = PLACE if informer.resource == VALKEY_CAS else place.namespace
            await informer.refresh(Key(where, "nobody"))
        lease = Leadership(client, Key(PLACE, MANAGER), "nobody")._informer
        await lease.refresh(Key(PLACE, MANAGER))
        assert Key(PLACE, MANAGER) in lease.store


def test_what_is_no_longer_asked_for_goes(place: Place) -> None:
    spec = {**SPEC, "replicas": 2, "podManagementType": "deployment", "readService": {"enabled": True}}
    place.apply("Valkey", "one", spec)
    place.is_ready("one")
    made = ("valkeynode/one-1", "poddisruptionbudget/one", "service/one-read")
    place.kubectl("get", *made, "deployment/one-0", "deployment/one-1")
    patch = json.dumps({"spec": {"replicas": 1, "readService": {"enabled": False}}})
    place.kubectl("patch", "valkey", "one", "--type=merge", f"--patch={patch}")
    place.kubectl("wait", "--for=delete", *made, "deployment/one-1", "--timeout=90s")
    place.is_ready("one")
