"""Errors as RFC 9457 problems: a status, a stable `code`, the field, and what to do.

Codes are part of the contract: programs decide by them, so a code is never renamed. The mapping from duetime's errors
to status codes is only here.
"""

import logging
from typing import NamedTuple

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
    Overloaded,
    QuotaExceeded,
    SealBroken,
    StaleVersion,
    StoreError,
    StoreRejected,
    StreamFull,
    StreamUnavailable,
    TenantDeleting,
    TenantSuspended,
    reason_of,
)
from duetime.wire.jobs import ItemProblem

log = logging.getLogger("duetime.api")

MEDIA = "application/problem+json"
RETRY_SOON = "1"
"""Seconds in `Retry-After`, for temporary conditions."""


class Kind(NamedTuple):
    status: int
    code: str
    title: str


INVALID_JSON = Kind(400, "invalid_json", "The body is not acceptable JSON")
BAD_REQUEST = Kind(400, "bad_request", "The request is malformed")
UNAUTHENTICATED = Kind(401, "unauthenticated", "The request has no valid key")
FORBIDDEN = Kind(403, "forbidden", "The key may not do this")
ADDRESS = Kind(403, "address_not_allowed", "The key may not be used from this address")
SUSPENDED = Kind(403, "tenant_suspended", "The tenant is suspended")
DELETING = Kind(403, "tenant_deleting", "The tenant is being deleted")
QUOTA = Kind(403, "quota_exceeded", "The tenant has reached its quota")
NOT_FOUND = Kind(404, "not_found", "The object does not exist")
METHOD_NOT_ALLOWED = Kind(405, "method_not_allowed", "The path does not support this method")
SLOW_BODY = Kind(408, "slow_body", "The body did not arrive in time")
CONFLICT = Kind(409, "conflict", "The object is not in a state that allows this")
CALENDAR_IN_USE = Kind(409, "calendar_in_use", "Jobs use the calendar")
NAME_TAKEN = Kind(409, "name_taken", "The name is taken")
JOB_BUSY = Kind(409, "job_busy", "The job's run has started")
KEY_MISSING = Kind(409, "encryption_key_missing", "The server has no encryption key")
KEY_UNKNOWN = Kind(409, "encryption_key_unknown", "The server does not have the encryption key of the data")
SEAL_BROKEN = Kind(409, "seal_broken", "Encrypted data cannot be decrypted")
IN_FLIGHT = Kind(409, "idempotency_key_in_flight", "The same request is in progress")
IN_STREAM = Kind(409, "in_stream", "The run may be in a stream")
LEASE_LOST = Kind(409, "lease_lost", "The run now belongs to another worker")
STALE = Kind(412, "stale_version", "The object has changed since it was read")
TOO_LARGE = Kind(413, "too_large", "The body is too large")
WRONG_MEDIA = Kind(415, "unsupported_media_type", "The media type of the body is not supported")
INVALID_INPUT = Kind(422, "invalid_input", "A value is not valid")
KEY_REUSED = Kind(422, "idempotency_key_reused", "The idempotency key was used for another request")
INVALID_CURSOR = Kind(422, "invalid_cursor", "The cursor does not belong to this list")
RATE_LIMITED = Kind(429, "rate_limited", "The rate limit is reached")
STREAM_FULL = Kind(429, "stream_full", "The stream of the queue is full")
INTERNAL = Kind(500, "internal_error", "The server failed")
UNAVAILABLE = Kind(503, "unavailable", "The database is not available")
BROKER_UNAVAILABLE = Kind(503, "broker_unavailable", "The broker of the queue is not available")
PROVIDER_UNAVAILABLE = Kind(503, "provider_unavailable", "The identity provider is not available")
OVERLOADED = Kind(503, "overloaded", "The server is overloaded")

KINDS: tuple[Kind, ...] = tuple(kind for kind in list(globals().values()) if isinstance(kind, Kind))

# Subclasses first.
_BY_ERROR: tuple[tuple[type[DuetimeError], Kind], ...] = (
    (InvalidInput, INVALID_INPUT),
    (InStream, IN_STREAM),
    (NotFound, NOT_FOUND),
    (TenantDeleting, DELETING),
    (TenantSuspended, SUSPENDED),
    (AccessDenied, FORBIDDEN),
    (KeyInFlight, IN_FLIGHT),
    (KeyReused, KEY_REUSED),
    (JobBusy, JOB_BUSY),
    (StaleVersion, STALE),
    (NoEncryptionKey, KEY_MISSING),
    (CalendarInUse, CALENDAR_IN_USE),
    (NameTaken, NAME_TAKEN),
    (Conflict, CONFLICT),
    (StreamFull, STREAM_FULL),
    (QuotaExceeded, QUOTA),
    (Overloaded, OVERLOADED),
    (LeaseLost, LEASE_LOST),
    (StoreRejected, INVALID_INPUT),
    (KeyUnknown, KEY_UNKNOWN),
    (SealBroken, SEAL_BROKEN),
    (StreamUnavailable, BROKER_UNAVAILABLE),
    (StoreError, UNAVAILABLE),
)


class ProblemDocument(msgspec.Struct, frozen=True, omit_defaults=True, rename={"kind": "type"}):
    """An RFC 9457 problem."""

    kind: str
    title: str
    status: int
    code: str
    """Stable: programs may decide by it."""
    detail: str | None = None
    field: str | None = None
    """The field or header that is wrong."""
    remedy: str | None = None
    """What to do."""
    errors: tuple[ItemProblem, ...] = ()
    """The errors of the items of a batch."""


class Problem(Exception):
    """An error response."""

    def __init__(
        self,
        kind: Kind,
        detail: str | None = None,
        *,
        field: str | None = None,
        remedy: str | None = None,
        headers: dict[str, str] | None = None,
        errors: tuple[ItemProblem, ...] = (),
        unread: bool = False,
    ) -> None:
        super().__init__(detail or kind.title)
        self.kind = kind
        self.detail = detail
        self.field = field
        self.remedy = remedy
        self.headers = headers or {}
        self.errors = errors
        self.unread = unread
        """The rest of the body is not read: the connection is closed after the response."""

    @property
    def document(self) -> ProblemDocument:
        status, code, title = self.kind
        kind = f"urn:duetime:problem:{code}"
        return ProblemDocument(kind, title, status, code, self.detail, self.field, self.remedy, self.errors)


def problem_of(error: Exception) -> Problem | None:
    """The problem for an error; None for an internal error."""
    if isinstance(error, Problem):
        return error
    kind = next((kind for of, kind in _BY_ERROR if isinstance(error, of)), None)
    if kind is None or not isinstance(error, DuetimeError):
        return None
    if kind in (UNAVAILABLE, BROKER_UNAVAILABLE):
        # The message of the database or the broker can name hosts and tables: it is logged, not sent.
        return Problem(kind, remedy="ask again in a moment", headers={"retry-after": RETRY_SOON})
    headers = {"retry-after": RETRY_SOON} if kind in (IN_FLIGHT, OVERLOADED, STREAM_FULL) else None
    return Problem(kind, error.message, field=error.field, remedy=error.remedy, headers=headers)


def item_problem(index: int, error: Exception) -> ItemProblem:
    """The error of one item of a batch."""
    problem = problem_of(error)
    if problem is None:
        raise error
    if isinstance(error, StoreError):
        log.warning("item %d of a batch: %s", index, reason_of(error))
    return ItemProblem(index, problem.kind.code, str(problem), problem.field, problem.remedy)
