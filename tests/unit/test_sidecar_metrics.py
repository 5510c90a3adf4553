"""What Prometheus reads of a sidecar, by Prometheus' own parser."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from valkey_operator import __version__
from valkey_operator.sidecar import metrics
from valkey_operator.sidecar.metrics import Count, Counts


def read(counts: Counts, **now: bool) -> dict[tuple[str, str], float]:
    said = {"gate_is_open": False, "gate_is_asked": False, "server_is_up": False, "is_fenced": False, **now}
    families = text_string_to_metric_families(metrics.page(counts, **said))
    samples = [sample for family in families for sample in family.samples]
    return {(sample.name, ",".join(sample.labels.values())): sample.value for sample in samples}


def test_everything_is_there_from_the_start() -> None:
    seen = read(Counts())
    assert seen["valkey_sidecar_info", __version__] == 1
    assert seen["valkey_sidecar_gate_open", ""] == 0
    for result in ("served", "refused"):
        assert seen["valkey_sidecar_calls_total", result] == 0
    for result in ("sent", "failed"):
        assert seen["valkey_sidecar_heartbeats_total", result] == 0
    assert seen["process_resident_memory_bytes", ""] > 1_000_000
    assert seen["process_cpu_seconds_total", ""] > 0


def test_what_happens_is_counted() -> None:
    counts = Counts()
    for what in (Count.SERVER_STARTS, Count.SERVER_ENDS, Count.SERVER_STARTS, Count.CALLS_REFUSED):
        counts.add(what)
    seen = read(counts, gate_is_open=True, server_is_up=True, is_fenced=True)
    assert (seen["valkey_sidecar_server_starts_total", ""], seen["valkey_sidecar_server_ends_total", ""]) == (
        2,
        1,
    )
    assert seen["valkey_sidecar_calls_total", "refused"] == 1
    assert (seen["valkey_sidecar_gate_open", ""], seen["valkey_sidecar_gate_waiting", ""]) == (1, 0)
    assert (seen["valkey_sidecar_server_up", ""], seen["valkey_sidecar_fenced", ""]) == (1, 1)
