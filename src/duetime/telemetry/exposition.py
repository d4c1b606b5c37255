"""Meters as Prometheus sees them: made when they are scraped, from plain numbers, without asking anybody.

Base units, `_total` on what only grows, and no ids in labels: the number of series does not grow with jobs or tenants.
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
    "duetime_slots": _GaugeText("How many attempts may be under way in this worker.", ("place",)),
    "duetime_slots_used": _GaugeText("How many attempts are under way in this worker.", ("place",)),
    "duetime_event_loop_stalled_seconds": _GaugeText("For how long the event loop has done nothing at all."),
    "duetime_pool_connections": _GaugeText("Connections to the database that this process may have."),
    "duetime_pool_connections_used": _GaugeText("Connections to the database that are in use."),
    "duetime_queue_depth": _GaugeText("Runs that are due and wait, by priority; counted up to a cap.", ("priority",)),
    "duetime_oldest_due_age_seconds": _GaugeText("How long the run that waits longest could have started."),
    "duetime_dead_letters": _GaugeText("Runs whose attempts are spent; counted up to a cap."),
    "duetime_breakers": _GaugeText("Breakers that are not closed, by how they stand.", ("state",)),
    "duetime_workers": _GaugeText(
        "Workers that have registered, by whether their lease goes on, and by what they run.", ("state", "kind")
    ),
    "duetime_fleet_slots": _GaugeText("Slots of all live workers together."),
    "duetime_unserved_lanes": _GaugeText("Lanes with due runs that no live worker can take."),
    "duetime_table_rows": _GaugeText("Rows of a table, estimated.", ("table",)),
    "duetime_table_size_bytes": _GaugeText("Size of a table with its indexes.", ("table",)),
    "duetime_database_size_bytes": _GaugeText("Size of the database."),
    "duetime_survey_age_seconds": _GaugeText("How old the figures of the database are."),
}
"""Gauges that a process may have. What it does not have it does not show."""


class MeterCollector(Collector):
    def __init__(self, meters: Meters) -> None:
        self._meters = meters

    def collect(self) -> Iterable[Metric]:
        meters = self._meters
        yield _histogram("duetime_due_lag_seconds", "From a run's time to its first start.", meters.due_lag)
        yield _histogram("duetime_run_duration_seconds", "How long attempts of this worker took.", meters.run_duration)
        yield _histogram("duetime_event_loop_lag_seconds", "How late the event loop does things.", meters.loop_lag)
        for name, work in meters.work.items():
            yield _histogram(f"duetime_{name}_seconds", f"How long the database took to {name}.", work.seconds)
            yield _histogram(f"duetime_{name}_batch_size", f"How much one {name} dealt with.", work.sizes)
        yield _counter("duetime_runs", "Runs that ended.", ("outcome",), _one(meters.runs))
        yield _counter(
            "duetime_attempts",
            "Attempts that ended, by what failed (none: nothing) and the tier of their tenant.",
            ("failure", "tier"),
            dict(meters.attempts),
        )
        for name, text, value in (
            ("duetime_retries", "Attempts after which a run is tried again.", meters.retries),
            ("duetime_lease_expirations", "Attempts that were lost with their worker.", meters.lease_expirations),
            ("duetime_fence_rejections", "Completions that came too late to count.", meters.fence_rejections),
            ("duetime_fired_runs", "Runs that were made from schedules.", meters.fired),
            ("duetime_missed_occurrences", "Occurrences that were skipped because it was late.", meters.missed),
            ("duetime_passed_by_jobs", "Due jobs that this node could not plan and left to others.", meters.passed_by),
        ):
            yield _counter(name, text, (), {(): value})
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
            "When a canary job of this node came through last, by the database's clock.",
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
