"""What went wrong, told as RFC 9457 says: a status, a stable `code`, the field at fault, and what to do.

Codes are part of the contract: programs may decide by them, so none is renamed. The mapping from duetime's own errors
to status codes is here and nowhere else.
"""

import logging
from typing import NamedTuple

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
    Overloaded,
    QuotaExceeded,
    SealBroken,
    StaleVersion,
    StoreError,
    StoreRejected,
    reason_of,
)
from duetime.wire.jobs import ItemProblem

log = logging.getLogger("duetime.api")

MEDIA = "application/problem+json"
RETRY_SOON = "1"
"""Seconds, as the header has it: for what is over in a moment."""


class Kind(NamedTuple):
    status: int
    code: str
    title: str


INVALID_JSON = Kind(400, "invalid_json", "The body is not JSON that can be accepted")
BAD_REQUEST = Kind(400, "bad_request", "The request cannot be read")
UNAUTHENTICATED = Kind(401, "unauthenticated", "No valid key")
FORBIDDEN = Kind(403, "forbidden", "The key may not do this")
ADDRESS = Kind(403, "address_not_allowed", "The key may not be used from this address")
SUSPENDED = Kind(403, "tenant_suspended", "The tenant is suspended")
QUOTA = Kind(403, "quota_exceeded", "The tenant has as much as it may have")
NOT_FOUND = Kind(404, "not_found", "There is no such thing")
METHOD_NOT_ALLOWED = Kind(405, "method_not_allowed", "The path does not take this method")
SLOW_BODY = Kind(408, "slow_body", "The body took too long")
CONFLICT = Kind(409, "conflict", "Not at this moment")
CALENDAR_IN_USE = Kind(409, "calendar_in_use", "Jobs leave out the days of the calendar")
NAME_TAKEN = Kind(409, "name_taken", "There is one with this name already")
JOB_BUSY = Kind(409, "job_busy", "The job's run has started")
KEY_MISSING = Kind(409, "encryption_key_missing", "The server has no key to encrypt with")
KEY_UNKNOWN = Kind(409, "encryption_key_unknown", "The server does not have the key that it was encrypted with")
SEAL_BROKEN = Kind(409, "seal_broken", "What is stored encrypted cannot be opened")
IN_FLIGHT = Kind(409, "idempotency_key_in_flight", "The same request is under way")
LEASE_LOST = Kind(409, "lease_lost", "The run belongs to someone else by now")
STALE = Kind(412, "stale_version", "It has changed since it was read")
TOO_LARGE = Kind(413, "too_large", "The body is too large")
WRONG_MEDIA = Kind(415, "unsupported_media_type", "The body is of a kind that is not taken here")
INVALID_INPUT = Kind(422, "invalid_input", "A value cannot be accepted")
KEY_REUSED = Kind(422, "idempotency_key_reused", "The idempotency key came with another request")
INVALID_CURSOR = Kind(422, "invalid_cursor", "The cursor is not one of this list")
RATE_LIMITED = Kind(429, "rate_limited", "Too many at once")
INTERNAL = Kind(500, "internal_error", "Something went wrong here")
UNAVAILABLE = Kind(503, "unavailable", "The database cannot take it now")
OVERLOADED = Kind(503, "overloaded", "There is more to do than can be done now")

KINDS: tuple[Kind, ...] = tuple(kind for kind in list(globals().values()) if isinstance(kind, Kind))

# The most special class first.
_BY_ERROR: tuple[tuple[type[DuetimeError], Kind], ...] = (
    (InvalidInput, INVALID_INPUT),
    (NotFound, NOT_FOUND),
    (AccessDenied, FORBIDDEN),
    (KeyInFlight, IN_FLIGHT),
    (KeyReused, KEY_REUSED),
    (JobBusy, JOB_BUSY),
    (StaleVersion, STALE),
    (NoEncryptionKey, KEY_MISSING),
    (CalendarInUse, CALENDAR_IN_USE),
    (NameTaken, NAME_TAKEN),
    (Conflict, CONFLICT),
    (QuotaExceeded, QUOTA),
    (Overloaded, OVERLOADED),
    (LeaseLost, LEASE_LOST),
    (StoreRejected, INVALID_INPUT),
    (KeyUnknown, KEY_UNKNOWN),
    (SealBroken, SEAL_BROKEN),
    (StoreError, UNAVAILABLE),
)


class ProblemDocument(msgspec.Struct, frozen=True, omit_defaults=True, rename={"kind": "type"}):
    """An RFC 9457 problem."""

    kind: str
    title: str
    status: int
    code: str
    """Stable: decide by this."""
    detail: str | None = None
    field: str | None = None
    """The part of the request at fault."""
    remedy: str | None = None
    """What to do."""
    errors: tuple[ItemProblem, ...] = ()
    """What is wrong with which items of a batch."""


class Problem(Exception):
    """An answer that is not a success."""

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
        """The rest of the body is on its way and nobody wants it: the connection ends with the answer."""

    @property
    def document(self) -> ProblemDocument:
        status, code, title = self.kind
        kind = f"urn:duetime:problem:{code}"
        return ProblemDocument(kind, title, status, code, self.detail, self.field, self.remedy, self.errors)


def problem_of(error: Exception) -> Problem | None:
    """The problem that an error is to the caller; None for what is nobody's fault but ours."""
    if isinstance(error, Problem):
        return error
    kind = next((kind for of, kind in _BY_ERROR if isinstance(error, of)), None)
    if kind is None or not isinstance(error, DuetimeError):
        return None
    if kind is UNAVAILABLE:
        # What the database said may name hosts and tables: that is for the log.
        return Problem(kind, remedy="ask again in a moment", headers={"retry-after": RETRY_SOON})
    headers = {"retry-after": RETRY_SOON} if kind in (IN_FLIGHT, OVERLOADED) else None
    return Problem(kind, error.message, field=error.field, remedy=error.remedy, headers=headers)


def item_problem(index: int, error: Exception) -> ItemProblem:
    """What is wrong with one item of a batch."""
    problem = problem_of(error)
    if problem is None:
        raise error
    if isinstance(error, StoreError):
        log.warning("item %d of a batch: %s", index, reason_of(error))
    return ItemProblem(index, problem.kind.code, str(problem), problem.field, problem.remedy)
