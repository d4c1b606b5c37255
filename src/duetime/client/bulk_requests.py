"""Requests for bulk actions."""

from collections.abc import Mapping
from typing import Any

from duetime.client.request import Request, given, once, path, plain
from duetime.wire.bulk_actions import BulkActionName, BulkList, BulkPreview, BulkView

Conditions = Mapping[str, Any]


def preview_bulk_action(
    action: BulkActionName,
    *,
    jobs: Conditions | None = None,
    runs: Conditions | None = None,
    dead_letters: Conditions | None = None,
) -> Request[BulkPreview]:
    """How many jobs, runs or dead letters a bulk action would affect. The conditions are those of the lists:
    `{"queue": "mail", "status": "ACTIVE"}`."""
    return Request("POST", "/v1/bulk-actions/preview", BulkPreview, body=_body(action, jobs, runs, dead_letters))


def create_bulk_action(
    action: BulkActionName,
    *,
    jobs: Conditions | None = None,
    runs: Conditions | None = None,
    dead_letters: Conditions | None = None,
    rate: float | None = None,
    idempotency_key: str | None = None,
) -> Request[BulkView]:
    """Start a bulk action on the jobs (`cancel`, `pause`, `resume`, `run`), runs (`cancel`, `retry`) or dead letters
    (`retry`, `discard`) that match. `rate` is how many runs start per second. It continues on the server:
    `get_bulk_action` shows its progress."""
    body = {**_body(action, jobs, runs, dead_letters), **given(rate=rate)}
    return Request("POST", "/v1/bulk-actions", BulkView, body=body, headers=once(idempotency_key))


def list_bulk_actions() -> Request[BulkList]:
    """The newest bulk actions."""
    return Request("GET", "/v1/bulk-actions", BulkList)


def get_bulk_action(bulk_id: str) -> Request[BulkView]:
    """The progress of a bulk action."""
    return Request("GET", path("/v1/bulk-actions/{}", bulk_id), BulkView)


def stop_bulk_action(bulk_id: str) -> Request[BulkView]:
    """Stop a bulk action where it is. What it has done stays."""
    return Request("POST", path("/v1/bulk-actions/{}/stop", bulk_id), BulkView)


def _body(
    action: str, jobs: Conditions | None, runs: Conditions | None, dead_letters: Conditions | None
) -> dict[str, Any]:
    objects = {"jobs": jobs, "runs": runs, "dead_letters": dead_letters}
    said = {name: _plain(conditions) for name, conditions in objects.items() if conditions is not None}
    return {"action": action, **said}


def _plain(conditions: Conditions) -> dict[str, Any]:
    return {name: plain(value) for name, value in conditions.items() if value is not None}
