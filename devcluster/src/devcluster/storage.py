"""Plays provisioner and resizer: makes, grows and removes the volumes of the cluster's storage classes.

Runs as a process of the control plane. Two watches say what changed, and one loop looks at that claim or
volume as it is now, so that a repeated, late or missed event does no harm.
"""

from __future__ import annotations

import datetime
import logging
import queue
import sys
import threading
import time

from devcluster import volumes
from devcluster.api import Api, ApiError, Json, Unreachable
from devcluster.places import Record, load_record
from devcluster.problem import Problem
from devcluster.quantity import parse_bytes

PROVISIONER = "devcluster.local/volume"
# On a claim: its volume does not grow until the annotation is taken away, as with a back end that cannot.
REFUSE_GROWTH = "devcluster.local/refuse-growth"
CLAIMS = "/api/v1/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
log = logging.getLogger("storage")


class Storage:
    """Brings volumes in line with claims, one object at a time."""

    def __init__(self, record: Record, api: Api) -> None:
        self._record = record
        self._api = api

    def see_claim(self, claim: Json) -> None:
        if claim["metadata"].get("deletionTimestamp"):
            return
        if claim["status"].get("phase") == "Pending":
            self._provision(claim)
        elif claim["status"].get("phase") == "Bound":
            self._grow(claim)

    def _provision(self, claim: Json) -> None:
        notes = claim["metadata"].get("annotations", {})
        if notes.get("volume.kubernetes.io/storage-provisioner") != PROVISIONER or claim["spec"].get(
            "volumeName"
        ):
            return
        kind = self._api.get(f"/apis/storage.k8s.io/v1/storageclasses/{claim['spec']['storageClassName']}")
        node = notes.get("volume.kubernetes.io/selected-node")
        if kind["volumeBindingMode"] == "WaitForFirstConsumer" and not node:
            return
        name = f"pvc-{claim['metadata']['uid']}"
        size = claim["spec"]["resources"]["requests"]["storage"]
        path = volumes.make(self._record, name, parse_bytes(size))
        is_pinned = kind.get("parameters", {}).get("pinned") == "true"
        try:
            self._api.post(VOLUMES, _volume(name, claim, kind, str(path), node if is_pinned else None))
            log.info("made %s (%s) for %s", name, size, _key(claim))
        except ApiError as error:
            if error.code != 409:  # made before, and the claim is not bound to it yet
                raise

    def _grow(self, claim: Json) -> None:
        wanted, name = claim["spec"]["resources"]["requests"]["storage"], claim["spec"]["volumeName"]
        capacity = claim["status"].get("capacity", {}).get("storage", "0")
        if not name.startswith("pvc-") or parse_bytes(wanted) <= parse_bytes(capacity):
            return
        volume = self._api.get(f"{VOLUMES}/{name}")
        if _provisioner(volume) != PROVISIONER:
            return
        if REFUSE_GROWTH in claim["metadata"].get("annotations", {}):
            raise Problem(f"growing {name} is refused by the annotation {REFUSE_GROWTH}")
        volumes.grow(self._record, name, parse_bytes(wanted))
        self._api.patch(f"{VOLUMES}/{name}", {"spec": {"capacity": {"storage": wanted}}})
        path = f"/api/v1/namespaces/{claim['metadata']['namespace']}/persistentvolumeclaims"
        status = {"capacity": {"storage": wanted}, "conditions": None}
        self._api.patch(f"{path}/{claim['metadata']['name']}/status", {"status": status})
        log.info("grew %s of %s from %s to %s", name, _key(claim), capacity, wanted)

    def see_volume(self, volume: Json) -> None:
        released = volume["status"].get("phase") == "Released"
        policy = volume["spec"]["persistentVolumeReclaimPolicy"]
        if _provisioner(volume) != PROVISIONER or not released or policy != "Delete":
            return
        name = volume["metadata"]["name"]
        # The volume's object goes last: while it is there, a removal cut short is tried again.
        volumes.remove(self._record, name)
        self._api.delete(f"{VOLUMES}/{name}")
        log.info("removed %s", name)

    def tell(self, thing: Json, message: str) -> None:
        """Leave an Event where `kubectl describe` shows it."""
        meta = thing["metadata"]
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        namespace = meta.get("namespace", "default")
        reference = {"kind": thing["kind"], "name": meta["name"], "uid": meta["uid"], "namespace": namespace}
        event = {
            "metadata": {"generateName": f"{meta['name']}.", "namespace": namespace},
            "involvedObject": reference,
            "reason": "VolumeFailed",
            "message": message,
            "type": "Warning",
            "source": {"component": PROVISIONER},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        self._api.post(f"/api/v1/namespaces/{namespace}/events", event)


def _provisioner(volume: Json) -> str | None:
    notes: dict[str, str] = volume["metadata"].get("annotations", {})
    return notes.get("pv.kubernetes.io/provisioned-by")


def _key(thing: Json) -> str:
    return f"{thing['metadata'].get('namespace', '')}/{thing['metadata']['name']}"


def _volume(name: str, claim: Json, kind: Json, path: str, pinned_to: str | None) -> Json:
    # Every node shares this machine's disk: a volume is everywhere unless its class pins it to one node.
    place: Json = {"key": "kubernetes.io/hostname", "operator": "Exists"}
    if pinned_to:
        place = {"key": "kubernetes.io/hostname", "operator": "In", "values": [pinned_to]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER}},
        "spec": {
            "accessModes": claim["spec"]["accessModes"],
            "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "name": claim["metadata"]["name"],
                "namespace": claim["metadata"]["namespace"],
                "uid": claim["metadata"]["uid"],
            },
            "local": {"path": path},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [place]}]}},
            "persistentVolumeReclaimPolicy": kind["reclaimPolicy"],
            "storageClassName": kind["metadata"]["name"],
        },
    }


def _follow(api: Api, path: str, into: queue.Queue[str]) -> None:
    """Feed the paths of changed objects into the loop for ever; a lost connection is made again."""
    while True:
        try:
            for event in api.watch(path):
                meta = event["object"]["metadata"]
                place = f"/namespaces/{meta['namespace']}" if "namespace" in meta else ""
                into.put(f"/api/v1{place}/{path.rsplit('/', 1)[1]}/{meta['name']}")
        except (Unreachable, ApiError) as error:
            log.warning("watching %s: %s", path, error)
            time.sleep(0.2)


def serve(record: Record) -> None:
    api = Api(record.folder / "pki" / "storage.kubeconfig")
    storage = Storage(record, api)
    changed: queue.Queue[str] = queue.Queue()
    for path in (CLAIMS, VOLUMES):
        threading.Thread(target=_follow, args=(api, path, changed), daemon=True).start()
    failed: dict[str, str] = {}  # what went wrong, by path: told once, tried again until it goes well
    while True:
        try:
            paths = {changed.get(timeout=2 if failed else None)}
        except queue.Empty:
            paths = set(failed)
        for path in paths:
            problem = _settle(api, storage, path, failed.get(path))
            if problem:
                failed[path] = problem
            else:
                failed.pop(path, None)


def _settle(api: Api, storage: Storage, path: str, known_problem: str | None) -> str | None:
    """Deal with one object as it is now; returns what went wrong."""
    thing: Json | None = None
    try:
        thing = api.get(path)
        if thing["kind"] == "PersistentVolumeClaim":
            storage.see_claim(thing)
        else:
            storage.see_volume(thing)
    except (Problem, OSError) as error:
        if isinstance(error, ApiError) and error.code == 404:
            return None
        if str(error) != known_problem:
            log.warning("%s: %s", path, error)
            if thing and not isinstance(error, Unreachable):
                _tell(storage, thing, str(error))
        return str(error)
    return None


def _tell(storage: Storage, thing: Json, message: str) -> None:
    try:
        storage.tell(thing, message)
    except Problem as error:
        log.warning("the event about %s was not taken: %s", _key(thing), error)


def main() -> None:
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    record = load_record(sys.argv[1])
    if record is None:
        raise SystemExit(f"there is no cluster {sys.argv[1]}")
    serve(record)


if __name__ == "__main__":
    main()
