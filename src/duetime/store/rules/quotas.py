"""Quotas: how many rows of each kind a tenant may have, the same for every store.

Rows of cold tables are bounded by triggers, so that no statement gets around them. A trigger counts in the transaction
that adds the row; in PostgreSQL it first takes a lock for the tenant and the kind, so that two transactions do not
count past each other. A row beyond the limit is refused, and the whole statement with it. An upsert that meets a row
adds none, and is never refused.

Rows of the hot path are checked against estimates instead: see `engine/quota.py`.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from duetime.errors import QuotaExceeded
from duetime.model.tenant import COLUMNS, TenantLimits
from duetime.store.rules.job_rows import Fields

QUOTAS = tuple(name for name in TenantLimits.__struct_fields__ if name not in COLUMNS)
REFUSED = "duetime quota "
"""How the message of a trigger begins; the name of the limit follows."""

_WORDS: Mapping[str, tuple[str, str]] = {
    "stored_jobs": ("stored jobs", "wait until some have ended, or delete some"),
    "stored_bytes": ("bytes of arguments in stored jobs", "wait until some jobs have ended, or delete some"),
    "idempotency_keys": ("remembered idempotency keys and job keys", "wait until older ones are forgotten"),
    "graphs": ("graphs that are not over", "wait until some have ended, or cancel some"),
    "payloads": ("payloads", "delete some"),
    "payload_bytes": ("bytes of payloads", "delete some payloads"),
    "calendars": ("calendars", "delete some"),
    "queues": ("queues", "use fewer names, resume queues that are paused for nothing, or wait a day"),
    "subscriptions": ("subscriptions", "delete some"),
    "sources": ("sources", "delete some"),
    "issuers": ("issuers of tokens", "delete some"),
    "bulk_actions": ("bulk actions at once", "wait until one is over, or stop one"),
    "alerts": ("alerts", "delete some"),
    "checkins": ("check-ins", "delete some"),
    "secrets": ("secrets", "delete some"),
    "signing_secrets": ("valid signing secrets", "rotate with a shorter overlap"),
    "api_keys": ("usable API keys", "revoke some"),
    "workers": ("remote workers at once", "stop some"),
    "worker_tasks": ("tasks of all its remote workers together", "register fewer, or stop some workers"),
    "tasks": ("tasks with defaults", "register fewer, or wait until unused ones are forgotten"),
}


def over_quota(kind: str, most: int, has: int | None = None) -> QuotaExceeded:
    """The refusal of a row that would be one too many."""
    noun, remedy = _WORDS[kind]
    seen = "" if has is None else f", and has about {has:,}"
    return QuotaExceeded(
        f"the tenant may have {most:,} {noun}{seen}",
        field=f"limits.{kind}",
        remedy=f"{remedy}; or let the operator raise the limit {kind}",
    )


def column_values(limits: TenantLimits) -> dict[str, Any]:
    """The limits as the columns of a tenant hold them."""
    given = msgspec.structs.asdict(limits)
    quotas = {name: given[name] for name in QUOTAS if given[name] is not None}
    return {name: given[name] for name in COLUMNS} | {"quotas": msgspec.json.encode(quotas).decode()}


def limits_of(row: Fields) -> TenantLimits:
    """The limits of a tenant's row. What a newer release has put there is left alone."""
    quotas = msgspec.json.decode(row["quotas"] or "{}", type=dict[str, int])
    known = {name: most for name, most in quotas.items() if name in QUOTAS}
    return TenantLimits(**{name: row[name] for name in COLUMNS}, **known)
