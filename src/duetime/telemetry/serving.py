"""Metrics on a port of their own, for a process without an API, or for a Prometheus that shall have no key.

Beside them `/livez`, for whoever restarts what hangs. Both have a thread of their own: an event loop that is blocked
cannot say so itself.
"""

import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

from duetime.errors import InvalidInput
from duetime.telemetry.pulse import Pulse

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


@contextmanager
def metrics_shown(registry: CollectorRegistry, pulse: Pulse, host: str, port: int | None) -> Iterator[int | None]:
    """Show the metrics inside the block, and whether the event loop goes on; gives the port."""
    if port is None:
        yield None
        return
    try:
        server = _server(host, port)
    except OSError as error:
        raise InvalidInput(
            f"metrics cannot be shown on {host}:{port}: {error.strerror or error}",
            field="metrics_port",
            remedy="set another one (DUETIME_METRICS_PORT; 0 takes a free one), or stop what listens there",
        ) from None
    server.set_app(_pages(registry, pulse))
    thread = threading.Thread(target=server.serve_forever, name="duetime-metrics", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _pages(registry: CollectorRegistry, pulse: Pulse) -> "WSGIApplication":
    metrics = make_wsgi_app(registry)

    def answer(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        if environ["PATH_INFO"] != "/livez":
            return metrics(environ, start_response)  # type: ignore[no-any-return]
        dead = pulse.is_dead
        text = f"the event loop has stood still for {pulse.stalled:.0f} s: see the log\n" if dead else "ok\n"
        status = "503 Service Unavailable" if dead else "200 OK"
        start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
        return [text.encode()]

    return answer


def _server(host: str, port: int) -> WSGIServer:
    (family, *_, address), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)

    class Server(ThreadingMixIn, WSGIServer):
        daemon_threads = True
        address_family = family

    return Server((str(address[0]), port), _SilentHandler)


class _SilentHandler(WSGIRequestHandler):
    """Scrapes and probes are no news."""

    def log_message(self, format: str, *args: object) -> None: ...
