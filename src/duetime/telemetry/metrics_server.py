"""Metrics on their own port, for a process without an API, or for a Prometheus that has no API key.

They name tenants' tiers, targets and the load of the whole service, so a scrape must present the token from the
settings. Without a token, metrics are served on a loopback address only.

The same port serves `/livez`, without authentication, for a supervisor that restarts hanging processes. Both run on
threads of their own: a blocked event loop cannot report that itself.
"""

import hmac
import logging
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, make_wsgi_app

from duetime.errors import InvalidInput
from duetime.settings import Settings
from duetime.telemetry.pulse import Pulse
from duetime.telemetry.threaded_server import ThreadedServer

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


log = logging.getLogger("duetime.telemetry")

_NO_TOKEN = "set metrics_token (DUETIME_METRICS_TOKEN), or set host to a loopback address"


@contextmanager
def metrics_shown(registry: CollectorRegistry, pulse: Pulse, settings: Settings) -> Iterator[int | None]:
    """Serve the metrics and the state of the event loop inside the block; yields the port."""
    host, port, token = settings.host, settings.metrics_port, settings.metrics_token
    if port is None:
        yield None
        return
    try:
        server = ThreadedServer(
            host,
            port,
            header_timeout=settings.header_timeout.total_seconds(),
            response_timeout=settings.response_timeout.total_seconds(),
        )
    except OSError as error:
        raise InvalidInput(
            f"cannot serve metrics on {host}:{port}: {error.strerror or error}",
            field="metrics_port",
            remedy="set another port (DUETIME_METRICS_PORT; 0 picks a free one), or stop what listens there",
        ) from None
    is_local = ip_address(str(server.server_address[0]).partition("%")[0]).is_loopback
    if token is None and not is_local:
        log.warning("metrics on %s:%s refuse every request: %s", host, server.server_port, _NO_TOKEN)
    elif not is_local and settings.tls_in_front == "off":
        log.warning(
            "metrics are served on %s:%s in plain HTTP: the network can read them and metrics_token. Set host to a"
            " loopback address, or tls_in_front=on if a proxy in front of this port terminates TLS",
            host,
            server.server_port,
        )
    server.set_app(_pages(registry, pulse, token, is_local=is_local))
    thread = threading.Thread(target=server.serve_forever, name="duetime-metrics", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _pages(registry: CollectorRegistry, pulse: Pulse, token: str | None, *, is_local: bool) -> "WSGIApplication":
    metrics = make_wsgi_app(registry)

    def answer(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        if environ["PATH_INFO"] != "/livez":
            if token is None and not is_local:
                return _say(start_response, "403 Forbidden", _NO_TOKEN)
            if token is not None and not _shows(environ, token):
                challenge = ("WWW-Authenticate", 'Bearer realm="duetime metrics"')
                return _say(start_response, "401 Unauthorized", "send Authorization: Bearer <metrics_token>", challenge)
            return metrics(environ, start_response)  # type: ignore[no-any-return]
        if pulse.is_dead:
            text = f"the event loop has been blocked for {pulse.stalled:.0f} s: see the log"
            return _say(start_response, "503 Service Unavailable", text)
        return _say(start_response, "200 OK", "ok")

    return answer


def _shows(environ: "WSGIEnvironment", token: str) -> bool:
    scheme, _, given = str(environ.get("HTTP_AUTHORIZATION", "")).partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())


def _say(start_response: "StartResponse", status: str, text: str, *headers: tuple[str, str]) -> list[bytes]:
    start_response(status, [("Content-Type", "text/plain; charset=utf-8"), *headers])
    return [f"{text}\n".encode()]
