"""What the server counts of itself: requests by endpoint and status. Nothing here names a tenant or a payload."""

from prometheus_client import CollectorRegistry, Counter, generate_latest

from duetime.api.endpoint import Endpoint

MEDIA = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._answers = Counter(
            "duetime_http_answers",
            "Answers of the HTTP API.",
            ("endpoint", "status"),
            registry=self._registry,
        )
        self._counters: dict[tuple[str, int], Counter] = {}

    def answered(self, endpoint: Endpoint, status: int) -> None:
        key = endpoint.name, status
        counter = self._counters.get(key)
        if counter is None:
            counter = self._counters[key] = self._answers.labels(endpoint.name, str(status))
        counter.inc()

    def render(self) -> bytes:
        return generate_latest(self._registry)
