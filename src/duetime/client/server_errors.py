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


class ItemProblem(msgspec.Struct):
    """The problem of one item of a batch."""

    detail: str = ""


class ServerProblem(msgspec.Struct):
    """An RFC 9457 problem."""

    title: str = ""
    code: str = ""
    detail: str | None = None
    field: str | None = None
    remedy: str | None = None
    errors: tuple[ItemProblem, ...] = ()


def error_of(status: int, body: bytes) -> DuetimeError:
    """The error of a response. If it is not a problem document, only its status counts."""
    try:
        problem = msgspec.json.decode(body, type=ServerProblem)
    except (msgspec.DecodeError, msgspec.ValidationError):
        problem = ServerProblem(title=f"the server answered {status}")
    kind = _BY_CODE.get(problem.code) or _BY_STATUS.get(status)
    if kind is None:
        kind = ServerUnavailable if status >= 500 or status == 408 else InvalidInput
    message = problem.detail or problem.title or f"the server answered {status}"
    if problem.errors and problem.errors[0].detail:
        # `field` names the item; its detail says what is wrong with it.
        message = f"{problem.errors[0].detail}; {message}"
    return kind(message, field=problem.field, remedy=problem.remedy)


def is_transient(status: int) -> bool:
    """Whether the error is temporary."""
    return status in (408, 429) or status >= 500


def retry_after(headers: Any) -> float | None:
    """The seconds that the server asks to wait."""
    try:
        return max(0.0, float(headers.get("Retry-After", "")))
    except ValueError:
        return None
