"""Metrics on a port of their own, for a process without an API, or for a Prometheus that shall have no key."""

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server

from duetime.errors import InvalidInput


@contextmanager
def metrics_shown(registry: CollectorRegistry, host: str, port: int | None) -> Iterator[int | None]:
    """Show the metrics inside the block; gives the port. It has a thread of its own: a scrape waits for no task."""
    if port is None:
        yield None
        return
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise InvalidInput(
            f"metrics cannot be shown on {host}:{port}: {error.strerror or error}",
            field="metrics_port",
            remedy="set another one (DUETIME_METRICS_PORT; 0 takes a free one), or stop what listens there",
        ) from None
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
