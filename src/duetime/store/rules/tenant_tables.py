"""Every table of the schema: what of a tenant it holds, and how that is exported and erased.

A new table needs an entry in `TENANT_TABLES` or in `OTHER_TABLES`: a test compares them with the schema.
"""

from typing import Any, NamedTuple
from uuid import UUID

_NO_ID = UUID(int=0)


class Exported(NamedTuple):
    """How the rows of a table are read for an export."""

    read: str
    """The statement that reads the next rows, in the order of `key_0`, `key_1`, …"""
    first: tuple[Any, ...] = ("",)
    """Keys below all others."""
    rows: int = 100
    """How many rows are read at once."""


class TenantTable(NamedTuple):
    """A table with rows of tenants."""

    name: str
    erase: str
    """The statement that removes some rows."""
    export: Exported | str
    """How it is exported; or why it is not."""
    until: str | None = None
    """For a table without an index by tenant: the statement that finds the end of the next part."""


# In the order of erasure: first what creates other rows, then what these need.
TENANT_TABLES = (
    TenantTable("sources", "erase_sources", Exported("export_sources")),
    TenantTable("bulk_actions", "erase_bulk_actions", Exported("export_bulk_actions", (_NO_ID,))),
    TenantTable("checkins", "erase_checkins", Exported("export_checkins")),
    TenantTable("alerts", "erase_alerts", Exported("export_alerts")),
    TenantTable("subscriptions", "erase_subscriptions", Exported("export_subscriptions")),
    TenantTable("cursors", "erase_cursors", "part of `jobs`"),
    TenantTable("jobs", "erase_jobs", Exported("export_jobs", (_NO_ID,), rows=20)),
    TenantTable("followers", "erase_followers", "part of the schedules of `jobs`", "followers_until"),
    TenantTable("cancels", "erase_cancels", "part of `runs`"),
    TenantTable("handovers", "erase_handovers", "deadlines of live runs"),
    TenantTable("live_logs", "erase_live_logs", "part of `runs`", "live_logs_until"),
    TenantTable("runs", "erase_runs", Exported("export_runs", (_NO_ID, _NO_ID), rows=20)),
    TenantTable("holds", "erase_holds", "which live runs hold slots"),
    TenantTable("starts", "erase_starts", "counts of a rate, for one period"),
    TenantTable("limits", "erase_limits", Exported("export_limits", (0,))),
    TenantTable("ended", "erase_ended", "ends that were not handed on yet: in `history`", "ended_until"),
    TenantTable("dependents", "erase_dependents", "counts of `edges`", "dependents_until"),
    TenantTable("edges", "erase_edges", Exported("export_edges", (_NO_ID, -1, _NO_ID)), "edges_until"),
    TenantTable("nodes", "erase_nodes", Exported("export_nodes", (_NO_ID, -1)), "nodes_until"),
    TenantTable("graphs", "erase_graphs", Exported("export_graphs", (_NO_ID,))),
    TenantTable("dead_letters", "erase_dead_letters", Exported("export_dead_letters", (_NO_ID,), rows=20)),
    TenantTable("history", "erase_history", Exported("export_history", (_NO_ID, -1, -1), rows=20)),
    TenantTable("usage", "erase_usage", Exported("export_usage", (-1, ""))),
    TenantTable("trends", "erase_trends", "counts of `history`, for a week"),
    TenantTable("keys", "erase_keys", Exported("export_keys", ("", ""))),
    TenantTable("labels", "erase_labels", "part of the options of jobs and runs"),
    TenantTable("terms", "erase_terms", "the values of labels"),
    TenantTable(
        "deleted_jobs",
        "erase_deleted_jobs",
        "their runs are in `history`",
        "deleted_jobs_until",
    ),
    TenantTable("payload_refs", "erase_payload_refs", "part of the options of jobs and runs", "payload_refs_until"),
    TenantTable("payloads", "erase_payloads", Exported("export_payloads", (_NO_ID,), rows=1)),
    TenantTable("calendar_users", "erase_calendar_users", "part of the schedules of `jobs`"),
    TenantTable("calendars", "erase_calendars", Exported("export_calendars")),
    TenantTable("suspects", "erase_suspects", "lost workers of the last hour"),
    TenantTable("breakers", "erase_breakers", "the state of targets in the last hour"),
    TenantTable("attempts", "erase_attempts", "calls of the last minute"),
    TenantTable("queues", "erase_queues", Exported("export_queues")),
    TenantTable("stream_queues", "erase_stream_queues", Exported("export_stream_queues", ("", 0))),
    TenantTable("tasks", "erase_tasks", Exported("export_tasks")),
    TenantTable("workers", "erase_workers", "processes with a lease of seconds"),
    TenantTable("past_workers", "erase_past_workers", "processes that ended in the last day"),
    TenantTable("issuers", "erase_issuers", Exported("export_issuers")),
    TenantTable("tenant_secrets", "erase_tenant_secrets", Exported("export_tenant_secrets")),
    TenantTable("signing_secrets", "erase_signing_secrets", Exported("export_signing_secrets", (_NO_ID,))),
    TenantTable("events", "erase_events", "changes of the last minutes"),
    TenantTable("lanes", "erase_lanes", "names of queues and tasks: in `jobs`, `runs` and `history`"),
    TenantTable("sessions", "erase_sessions", Exported("export_sessions", (_NO_ID,))),
    TenantTable("login_links", "erase_login_links", "hashes of tokens that are valid for minutes"),
    TenantTable("api_keys", "erase_api_keys", Exported("export_api_keys", (_NO_ID,))),
    TenantTable("token_buckets", "erase_token_buckets", "counts of the last seconds"),
    TenantTable("fire_rates", "erase_fire_rates", "how much of a rate is used"),
    TenantTable("audit", "erase_audit", Exported("export_audit", (_NO_ID,))),
)

OTHER_TABLES = {
    "tenants": "the row of the tenant goes last, by `end_tenant`",
    "erasures": "how much was removed, and no content",
    "archive_parts": "the archive removes a file and its row together",
    "archive_days": "days of all tenants",
    "lane_requests": "removed with the lanes; PostgreSQL only",
    "lane_changes": "numbers of lanes, for an hour",
    "claims": "ids of runs, until the runs have ended",
    "spent": "ids of runs, for days",
    "clock_watch": "of the service",
    "search_index": "of the service; a place among labels of the tenant is reset by `end_tenant`",
    "term_grams": "an index of `terms`, by triggers; SQLite only",
    "usage_days": "which days were counted; PostgreSQL only",
    "usage_place": "how far it was counted; SQLite only",
    "data_keys": "of the service",
    "event_places": "of the service",
    "function_files": "of the service",
    "listening": "of the service",
    "meta": "of the service; a re-encryption that was stopped at a tenant's row begins at the tenant again",
    "notifying": "of the service",
    "schema_versions": "of the service",
    "secrets": "of the service",
}
"""Tables that are erased in another way, or hold nothing that a tenant has written, and why."""
