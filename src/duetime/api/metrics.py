"""The metrics of the HTTP server: responses by endpoint and status. No label names a tenant or a payload."""

from prometheus_client import Counter

from duetime.api.endpoint import Endpoint
from duetime.telemetry.exposition import page, registry_of
from duetime.telemetry.meters import Meters


class Metrics:
    def __init__(self, meters: Meters) -> None:
        self.registry = registry_of(meters)
        self._answers = Counter(
            "duetime_http_answers",
            "Responses of the HTTP API.",
            ("endpoint", "status"),
            registry=self.registry,
        )
        self._refusals = Counter(
            "duetime_http_refused",
            "Connections and requests that were refused before authentication.",
            ("reason",),
            registry=self.registry,
        )
        self._limited = Counter(
            "duetime_http_limited",
            "Requests that were refused because a tenant, a key or an address has reached a limit.",
            ("limit",),
            registry=self.registry,
        )
        self._counters: dict[tuple[str, int], Counter] = {}

    def answered(self, endpoint: Endpoint, status: int) -> None:
        key = endpoint.name, status
        counter = self._counters.get(key)
        if counter is None:
            counter = self._counters[key] = self._answers.labels(endpoint.name, str(status))
        counter.inc()

    def refused(self, reason: str) -> None:
        self._refusals.labels(reason).inc()

    def limited(self, limit: str) -> None:
        self._limited.labels(limit).inc()

    def render(self) -> bytes:
        return page(self.registry)
