"""From what a server answers to duetime's own errors, so that a caller meets the same ones as beside a store."""

from typing import Any

import msgspec

from duetime.errors import (
    AccessDenied,
    CalendarInUse,
    Conflict,
    DuetimeError,
    InvalidInput,
    JobBusy,
    KeyInFlight,
    KeyReused,
    KeyUnknown,
    LeaseLost,
    NameTaken,
    NoEncryptionKey,
    NotFound,
    QuotaExceeded,
    RateLimited,
    SealBroken,
    ServerUnavailable,
    StaleVersion,
)

_BY_CODE: dict[str, type[DuetimeError]] = {
    "calendar_in_use": CalendarInUse,
    "encryption_key_missing": NoEncryptionKey,
    "encryption_key_unknown": KeyUnknown,
    "idempotency_key_in_flight": KeyInFlight,
    "idempotency_key_reused": KeyReused,
    "job_busy": JobBusy,
    "lease_lost": LeaseLost,
    "name_taken": NameTaken,
    "quota_exceeded": QuotaExceeded,
    "seal_broken": SealBroken,
    "stale_version": StaleVersion,
}
_BY_STATUS: dict[int, type[DuetimeError]] = {
    401: AccessDenied,
    403: AccessDenied,
    404: NotFound,
    409: Conflict,
    412: Conflict,
    429: RateLimited,
}


class ItemTold(msgspec.Struct):
    """What is read of the problem of one item of a batch."""

    detail: str = ""


class Told(msgspec.Struct):
    """What is read of an RFC 9457 problem."""

    title: str = ""
    code: str = ""
    detail: str | None = None
    field: str | None = None
    remedy: str | None = None
    errors: tuple[ItemTold, ...] = ()


def error_of(status: int, body: bytes) -> DuetimeError:
    """The error that an answer means; anything that is not a problem of ours speaks by its status alone."""
    try:
        told = msgspec.json.decode(body, type=Told)
    except (msgspec.DecodeError, msgspec.ValidationError):
        told = Told(title=f"the server answered {status}")
    kind = _BY_CODE.get(told.code) or _BY_STATUS.get(status)
    if kind is None:
        kind = ServerUnavailable if status >= 500 or status == 408 else InvalidInput
    message = told.detail or told.title or f"the server answered {status}"
    if told.errors and told.errors[0].detail:
        # Which `field` names: without it the reader knows where, but not what.
        message = f"{told.errors[0].detail}; {message}"
    return kind(message, field=told.field, remedy=told.remedy)


def is_transient(status: int) -> bool:
    """Whether the same request may be answered otherwise in a moment."""
    return status in (408, 429) or status >= 500


def retry_after(headers: Any) -> float | None:
    """Seconds that the server asks to wait."""
    try:
        return max(0.0, float(headers.get("Retry-After", "")))
    except ValueError:
        return None
