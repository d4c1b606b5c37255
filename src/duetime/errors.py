"""Every error that duetime raises on purpose, in one tree.

    DuetimeError
    ├── InvalidInput            the caller's input is invalid; nothing was changed
    │   └── SettingsError
    ├── NotFound                no such job, run or worker in this tenant
    │   └── InStream            the run is not in the store, and may be in a stream
    ├── Conflict                the request is valid, but conflicts with the current state
    │   ├── KeyInFlight         another request holds this idempotency key right now
    │   ├── KeyReused           this idempotency key was used for a different request
    │   ├── JobBusy             the job's run has started: it cannot be replaced now
    │   ├── StaleVersion        the job was edited meanwhile: read it again
    │   ├── CalendarInUse       jobs exclude the days of this calendar
    │   ├── NoEncryptionKey     the data must be encrypted, and this process has no key
    │   ├── ImportedByChild     a child process imports a module: the app cannot be used until that has ended
    │   └── NameTaken           the name is already in use
    ├── QuotaExceeded           the tenant is at its limit
    │   └── StreamFull          the queue's stream holds as many messages as it may
    ├── Overloaded              the system is overloaded: back off and retry
    ├── AccessDenied            the key is unknown, or lacks the permission
    │   └── TenantSuspended     the tenant is suspended: nothing is submitted
    │       └── TenantDeleting  the same while it is being deleted
    ├── Closed                  the object was closed during the call
    ├── RunFailed               the run whose result was requested has failed
    ├── RunCancelled            the run whose result was requested was cancelled or skipped
    ├── PayloadMismatch         stored arguments or a stored result do not fit the annotations of the task
    ├── MessageRefused          a broker refuses a message, or this login: a retry cannot help
    ├── LeaseLost               another worker may hold the run by now, or the worker's lease has expired
    ├── StoreError              the database returned an error
    │   ├── StoreUnavailable    it cannot be reached or asks to retry: back off and retry
    │   │   ├── QueueChanged        a queue goes through a stream now: its kind is read again
    │   │   ├── StreamUnavailable   the same for a broker
    │   │   ├── ArchiveUnavailable  the same for the storage of archived history
    │   │   └── ServerUnavailable   the same for a duetime server
    │   │       └── RateLimited     the caller has used up a limit; nothing was changed
    │   ├── StoreRejected       it refuses these rows: a retry cannot help
    │   ├── SealBroken          encrypted data cannot be opened: it was modified
    │   │   └── KeyUnknown          it was encrypted with a key that this process does not have
    │   ├── ArchiveDamaged      a file of archived history is missing or is not what was written
    │   └── SchemaMismatch      this code cannot run on its schema
    └── StoreLocked             the embedded file belongs to another process

The message says what is wrong, `field` names the invalid part of the input, and `remedy` says what to do.
"""

from collections.abc import Iterable

_LONGEST_VALUE = 60


class DuetimeError(Exception):
    """The base class of every error that duetime raises on purpose."""

    def __init__(self, message: str, *, field: str | None = None, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.remedy = remedy

    def __str__(self) -> str:
        where = f"{self.field}: " if self.field else ""
        then = f" ({self.remedy})" if self.remedy else ""
        return f"{where}{self.message}{then}"


class InvalidInput(DuetimeError):
    """The caller's input is invalid; nothing was changed."""


def not_a_choice(value: object, choices: Iterable[object], field: str | None = None) -> InvalidInput:
    """The error for a value outside a closed list. All interfaces use it, so all of them name the valid values."""
    given = repr(value)
    shown = given if len(given) <= _LONGEST_VALUE else f"{given[: _LONGEST_VALUE - 1]}…"
    valid = ", ".join(sorted(map(str, choices)))
    return InvalidInput(f"{shown} is not a valid value", field=field, remedy=f"one of {valid}")


class SettingsError(InvalidInput):
    """A setting is unknown, or its value is invalid."""


class NotFound(DuetimeError):
    """The object does not exist in this tenant. Another tenant's object gives exactly the same answer."""


class InStream(NotFound):
    """The run has no row in the store. It may be in a stream, where it can be neither read nor changed before a worker
    has fetched it."""


class Conflict(DuetimeError):
    """The request is valid, but conflicts with the current state."""


class KeyInFlight(Conflict):
    """Another request with this idempotency key has not committed yet."""


class KeyReused(Conflict):
    """This idempotency key was used before, for a different request."""


class JobBusy(Conflict):
    """The job's run has already started, so the job cannot be replaced."""


class StaleVersion(Conflict):
    """The edit was made for a version of the job that is not the current one."""


class CalendarInUse(Conflict):
    """A calendar cannot be deleted while jobs exclude its days."""


class NoEncryptionKey(Conflict):
    """The data must be encrypted, and this process has no encryption key."""


class ImportedByChild(Conflict):
    """A module uses or starts the app when a child process imports it. Every child would do it again."""


class NameTaken(Conflict):
    """The name is already in use."""


class QuotaExceeded(DuetimeError):
    """The tenant is at its limit; retry when it has less."""


class StreamFull(QuotaExceeded):
    """The stream of the queue holds as many messages as it may; retry in a moment."""


class Overloaded(DuetimeError):
    """The system is overloaded; retry in a moment."""


class AccessDenied(DuetimeError):
    """The key is unknown, or lacks the permission."""


class TenantSuspended(AccessDenied):
    """The tenant is suspended: nothing of it is submitted. Nothing was stored."""


class TenantDeleting(TenantSuspended):
    """The tenant is being deleted: nothing of it is submitted. Nothing was stored."""


class Closed(DuetimeError):
    """The object was closed during the call; the call may have taken effect."""


class RunFailed(DuetimeError):
    """The run whose result was asked for has failed."""


class RunCancelled(DuetimeError):
    """The run whose result was asked for was cancelled or skipped."""


class PayloadMismatch(DuetimeError):
    """Stored JSON does not fit the annotations of the task that reads it: they were changed after the job was
    submitted, or the job came from a caller that does not know them."""

    def __init__(self, message: str, *, task: str, path: str, found: str | None, expected: str | None) -> None:
        super().__init__(message, field=path, remedy=f"compare the annotations of {task} with what is stored")
        self.task = task
        self.path = path
        self.found = found
        """The type of the stored value, where that is the problem."""
        self.expected = expected


class MessageRefused(DuetimeError):
    """A broker refuses a message, or this login: a retry cannot help."""


class NoCredentials(DuetimeError):
    """The credentials for a call cannot be obtained, now or at all."""

    may_retry = True


class LeaseLost(DuetimeError):
    """The worker no longer holds this run; its result must be dropped."""


class StoreError(DuetimeError):
    """The database returned an error."""


class StoreUnavailable(StoreError):
    """The database cannot be reached, or asks to retry."""


class QueueChanged(StoreUnavailable):
    """A queue goes through a stream now, so that a request may be there already. Nothing was stored."""


class StreamUnavailable(StoreUnavailable):
    """The broker of a stream queue cannot be reached, or asks to retry."""


class ArchiveUnavailable(StoreUnavailable):
    """The storage of archived history cannot be reached now: back off and retry."""


class ServerUnavailable(StoreUnavailable):
    """The server cannot be reached, or asks to retry."""

    retry_after: float | None = None
    """Seconds that the server asks to wait."""


class RateLimited(ServerUnavailable):
    """The caller has used up a limit, and must wait for `retry_after` seconds. Nothing was changed."""


class StoreRejected(StoreError):
    """The database refuses these rows; the same rows will be refused again."""

    @classmethod
    def because(cls, cause: BaseException) -> "StoreRejected":
        """The database's own message names tables and columns: it is kept as the cause, for the log (`reason_of`)."""
        error = cls("a value cannot be stored", remedy="look for unusual characters and for values that are too large")
        error.__cause__ = cause
        return error


class SealBroken(StoreError):
    """Encrypted data cannot be opened: its key is unknown here, or it was modified."""


class KeyUnknown(SealBroken):
    """Encrypted data needs a key that this process does not have."""


class ArchiveDamaged(StoreError):
    """A file of archived history is missing, or is not what was written."""


class SchemaMismatch(StoreError):
    """This code cannot run on the database's schema."""


class StoreLocked(DuetimeError):
    """The embedded database file belongs to another process."""

    owner_serves = False
    """Whether that process keeps the file for as long as it runs, and can be reached over HTTP."""


def never_ran(job_id: str) -> Conflict:
    """The error for a caller that waits for a run that will never exist."""
    return Conflict(f"{job_id} ended without a run: there is no result to wait for", field="job")


def in_stream(shown: str) -> InStream:
    """The error for a job or run that cannot be read or changed, because it may be in a stream."""
    return InStream(
        f"{shown} is not in the store, and may be in a stream, where it can be neither read nor changed",
        remedy="try again when a worker has fetched it; to cancel waiting runs, use a store queue",
    )


def reason_of(error: BaseException) -> str:
    """The reason as text for the operator's log. An exception without text, like most timeouts, is described by its
    class."""
    try:
        text = str(error).strip()
        if isinstance(error, StoreRejected) and error.__cause__ is not None:
            text = f"{error.message}: {error.__cause__}"
    except Exception:
        text = ""
    return text or type(error).__name__
