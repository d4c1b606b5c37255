"""Meters in Prometheus' format: built when scraped, from plain numbers, without any query.

Base units, `_total` on counters, and no ids in labels: the number of series does not grow with jobs. Those of single
queues are bounded (`engine/queue_figures.py`).
"""

from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from duetime.telemetry.buckets import Buckets
from duetime.telemetry.meters import Meters

MEDIA = "text/plain; version=0.0.4; charset=utf-8"


class _GaugeText(NamedTuple):
    text: str
    labels: tuple[str, ...] = ()


GAUGES = {
    "duetime_slots": _GaugeText("Attempts that this worker can run at once.", ("place",)),
    "duetime_slots_used": _GaugeText("Attempts in progress in this worker.", ("place",)),
    "duetime_event_loop_stalled_seconds": _GaugeText("Seconds since the event loop last ran."),
    "duetime_pool_connections": _GaugeText("Database connections that this process may open."),
    "duetime_pool_connections_used": _GaugeText("Database connections in use."),
    "duetime_queue_depth": _GaugeText("Due runs that wait, by priority; counted up to a cap.", ("priority",)),
    "duetime_oldest_due_age_seconds": _GaugeText("How long the oldest due run has waited."),
    "duetime_tenant_queue_depth": _GaugeText(
        "Due runs of a queue that wait, and messages in its streams; counted up to a cap.", ("tenant", "queue")
    ),
    "duetime_tenant_queue_oldest_age_seconds": _GaugeText(
        "How long the oldest due run of a queue has waited.", ("tenant", "queue")
    ),
    "duetime_tenant_queue_arrivals_per_second": _GaugeText(
        "Runs of a queue that became due per second, in the last minute.", ("tenant", "queue")
    ),
    "duetime_tenant_queue_running": _GaugeText("Runs of a queue in slots of workers.", ("tenant", "queue")),
    "duetime_dead_letters": _GaugeText("Runs that used up their attempts; counted up to a cap."),
    "duetime_archive_waiting_days": _GaugeText("Days of history that are due to be archived."),
    "duetime_breakers": _GaugeText("Breakers that are not closed, by state.", ("state",)),
    "duetime_workers": _GaugeText(
        "Registered workers, by whether their lease is valid, and by what they run.", ("state", "kind")
    ),
    "duetime_fleet_slots": _GaugeText("Slots of all live workers."),
    "duetime_unserved_lanes": _GaugeText("Lanes with due runs that no live worker can take."),
    "duetime_stream_depth": _GaugeText("Messages in streams that are not done, by priority.", ("priority",)),
    "duetime_stream_oldest_age_seconds": _GaugeText("Age of the oldest message in streams.", ("priority",)),
    "duetime_stream_retention_used": _GaugeText(
        "Age of the oldest message in streams, as a share of the time after which its broker deletes it.", ("priority",)
    ),
    "duetime_table_rows": _GaugeText("Rows of a table, estimated.", ("table",)),
    "duetime_table_size_bytes": _GaugeText("Size of a table with its indexes.", ("table",)),
    "duetime_database_size_bytes": _GaugeText("Size of the database."),
    "duetime_survey_age_seconds": _GaugeText("Age of the database figures."),
}
"""Gauges that a process may have. Those that it does not have are not shown."""


class MeterCollector(Collector):
    def __init__(self, meters: Meters) -> None:
        self._meters = meters

    def collect(self) -> Iterable[Metric]:
        meters = self._meters
        yield _histogram("duetime_due_lag_seconds", "From the due time of a run to its first start.", meters.due_lag)
        yield _histogram("duetime_run_duration_seconds", "Duration of this worker's attempts.", meters.run_duration)
        yield _histogram("duetime_event_loop_lag_seconds", "How late the event loop runs timers.", meters.loop_lag)
        for name, work in meters.work.items():
            yield _histogram(f"duetime_{name}_seconds", f"Seconds that the database took per {name}.", work.seconds)
            yield _histogram(f"duetime_{name}_batch_size", f"Rows per {name}.", work.sizes)
        yield _counter("duetime_runs", "Runs that ended.", ("outcome",), _one(meters.runs))
        yield _counter(
            "duetime_attempts",
            "Attempts that ended, by failure class (none: no failure) and the tier of their tenant.",
            ("failure", "tier"),
            dict(meters.attempts),
        )
        for name, text, value in (
            ("duetime_retries", "Failed attempts after which the run is retried.", meters.retries),
            ("duetime_lease_expirations", "Attempts lost with their worker.", meters.lease_expirations),
            ("duetime_fence_rejections", "Completions refused because of an outdated fence.", meters.fence_rejections),
            ("duetime_fired_runs", "Runs created from schedules.", meters.fired),
            ("duetime_missed_occurrences", "Occurrences skipped because they were late.", meters.missed),
            ("duetime_passed_by_jobs", "Due jobs that this node could not plan and left to others.", meters.passed_by),
            ("duetime_stream_redelivered", "Messages that another worker held before.", meters.redelivered),
            ("duetime_stream_refused", "Messages that are not duetime's, or were modified.", meters.stream_refused),
            ("duetime_archive_failures", "Days of history that could not be archived.", meters.archive_failures),
        ):
            yield _counter(name, text, (), {(): value})
        yield _counter("duetime_stream_landed", "Carried runs stored, by reason.", ("reason",), _one(meters.landed))
        yield _counter("duetime_source_messages", "Messages of sources.", ("outcome",), _one(meters.source_messages))
        yield from self._canary()
        yield from self._gauges()

    def _canary(self) -> Iterable[Metric]:
        meters = self._meters
        if not meters.canary:
            return
        yield _counter("duetime_canaries", "Canary jobs of this node.", ("outcome",), _one(meters.canary))
        family = HistogramMetricFamily(
            "duetime_canary_seconds", "How long each stage of a canary job took.", labels=("stage",)
        )
        for stage, buckets in meters.canary_stages.items():
            family.add_metric([stage], _cumulative(buckets), buckets.sum)
        yield family
        yield GaugeMetricFamily(
            "duetime_canary_last_success_timestamp_seconds",
            "When a canary job of this node last succeeded, by the database's clock.",
            meters.canary_succeeded_at,
        )

    def _gauges(self) -> Iterable[Metric]:
        for name, read in list(self._meters.gauges.items()):
            family = GaugeMetricFamily(name, GAUGES[name].text, labels=GAUGES[name].labels)
            for labels, value in read().items():
                family.add_metric(labels, value)
            yield family


def registry_of(meters: Meters) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(MeterCollector(meters))
    return registry


def page(registry: CollectorRegistry) -> bytes:
    return generate_latest(registry)


def _one(counts: Mapping[str, int]) -> dict[tuple[str, ...], int]:
    return {(label,): count for label, count in dict(counts).items()}


def _counter(
    name: str, text: str, labels: tuple[str, ...], counts: Mapping[tuple[str, ...], int]
) -> CounterMetricFamily:
    family = CounterMetricFamily(name, text, labels=labels)
    for values, count in counts.items():
        family.add_metric(values, count)
    return family


def _histogram(name: str, text: str, buckets: Buckets) -> HistogramMetricFamily:
    return HistogramMetricFamily(name, text, buckets=_cumulative(buckets), sum_value=buckets.sum)


def _cumulative(buckets: Buckets) -> list[tuple[str, float]]:
    bounds = [*(str(bound) for bound in buckets.bounds), "+Inf"]
    return list(zip(bounds, accumulate(buckets.counts), strict=True))
