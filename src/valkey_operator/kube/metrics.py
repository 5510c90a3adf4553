"""What the runtime counts about itself, for Prometheus; one name each, here and nowhere else."""

from __future__ import annotations

import functools

from prometheus_client import Counter, Gauge, Histogram

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_seconds = functools.partial(Histogram, buckets=_BUCKETS)

REQUESTS = Counter("valkey_operator_api_requests", "Requests to the Kubernetes API", ("verb", "code"))
REQUEST_SECONDS = _seconds(
    "valkey_operator_api_request_seconds", "Time of one request to the Kubernetes API", ("verb",)
)
WATCH_RESTARTS = Counter("valkey_operator_watch_restarts", "Watches begun anew", ("resource", "reason"))
CACHED = Gauge("valkey_operator_cached_objects", "Objects in memory", ("resource",))
QUEUE_DEPTH = Gauge("valkey_operator_queue_depth", "Keys that wait for a worker", ("controller",))
QUEUE_SECONDS = _seconds("valkey_operator_queue_seconds", "Time a key waits for a worker", ("controller",))
RECONCILE_SECONDS = _seconds(
    "valkey_operator_reconcile_seconds", "Time and result of reconciles", ("controller", "result")
)
LEADER = Gauge("valkey_operator_leader", "1 while this process leads")
EVENTS_DROPPED = Counter("valkey_operator_events_dropped", "Events not written: too many, or refused")
WEBHOOK_REQUESTS = Counter(
    "valkey_operator_webhook_requests", "Admission reviews answered", ("path", "verdict")
)
