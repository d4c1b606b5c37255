"""Requests for sources."""

from collections.abc import Mapping
from typing import Any

import msgspec

from duetime.client.request import Request, path
from duetime.model.source import OnBad, SourceBroker
from duetime.wire.jobs import Deleted
from duetime.wire.sources import SourceList, SourceView


def list_sources() -> Request[SourceList]:
    """The sources, and what became of their messages."""
    return Request("GET", "/v1/sources", SourceList)


def get_source(source: str) -> Request[SourceView]:
    """A source."""
    return Request("GET", path("/v1/sources/{}", source), SourceView)


def put_source(
    source: str,
    broker: SourceBroker | Mapping[str, Any],
    job: Mapping[str, Any],
    *,
    key: str | None = None,
    on_bad: OnBad = "skip",
    paused: bool = False,
) -> Request[SourceView]:
    """Create or replace a source. `broker` is such as `{"type": "redis", "address": "host:6379", "stream": "orders"}`,
    `job` has the fields of a job, in which `{"$from": "body.id"}` stands for a value of the message."""
    body = {
        "broker": dict(broker) if isinstance(broker, Mapping) else msgspec.to_builtins(broker),
        "job": dict(job),
        "key": key,
        "on_bad": on_bad,
        "paused": paused,
    }
    return Request("PUT", path("/v1/sources/{}", source), SourceView, body=body)


def pause_source(source: str) -> Request[SourceView]:
    """Pause a source: its messages wait at the broker."""
    return Request("POST", path("/v1/sources/{}/pause", source), SourceView)


def resume_source(source: str) -> Request[SourceView]:
    """Resume a source that was paused, or that a bad message has stopped."""
    return Request("POST", path("/v1/sources/{}/resume", source), SourceView)


def delete_source(source: str) -> Request[Deleted]:
    """Delete a source. How far it was read is forgotten."""
    return Request("DELETE", path("/v1/sources/{}", source), Deleted, repeatable=False)
