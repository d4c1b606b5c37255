"""From error responses to duetime's errors, so that a caller gets the same errors as with a store."""

from typing import Any

import msgspec

from duetime.errors import (
    AccessDenied,
    CalendarInUse,
    Conflict,
    DuetimeError,
    InStream,
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
    StreamFull,
)

_BY_CODE: dict[str, type[DuetimeError]] = {
    "calendar_in_use": CalendarInUse,
    "encryption_key_missing": NoEncryptionKey,
    "encryption_key_unknown": KeyUnknown,
    "idempotency_key_in_flight": KeyInFlight,
    "idempotency_key_reused": KeyReused,
    "in_stream": InStream,
    "job_busy": JobBusy,
    "lease_lost": LeaseLost,
    "name_taken": NameTaken,
    "quota_exceeded": QuotaExceeded,
    "seal_broken": SealBroken,
    "stale_version": StaleVersion,
    "stream_full": StreamFull,
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
    """The problem of one item of a batch."""

    detail: str = ""


class Told(msgspec.Struct):
    """An RFC 9457 problem."""

    title: str = ""
    code: str = ""
    detail: str | None = None
    field: str | None = None
    remedy: str | None = None
    errors: tuple[ItemTold, ...] = ()


def error_of(status: int, body: bytes) -> DuetimeError:
    """The error of a response. If it is not a problem document, only its status counts."""
    try:
        told = msgspec.json.decode(body, type=Told)
    except (msgspec.DecodeError, msgspec.ValidationError):
        told = Told(title=f"the server answered {status}")
    kind = _BY_CODE.get(told.code) or _BY_STATUS.get(status)
    if kind is None:
        kind = ServerUnavailable if status >= 500 or status == 408 else InvalidInput
    message = told.detail or told.title or f"the server answered {status}"
    if told.errors and told.errors[0].detail:
        # `field` names the item; its detail says what is wrong with it.
        message = f"{told.errors[0].detail}; {message}"
    return kind(message, field=told.field, remedy=told.remedy)


def is_transient(status: int) -> bool:
    """Whether the error is temporary."""
    return status in (408, 429) or status >= 500


def retry_after(headers: Any) -> float | None:
    """The seconds that the server asks to wait."""
    try:
        return max(0.0, float(headers.get("Retry-After", "")))
    except ValueError:
        return None
