"""Every error that duetime raises on purpose, in one tree.

    DuetimeError
    ├── InvalidInput            what the caller gave cannot be accepted; nothing was changed
    │   └── SettingsError
    ├── NotFound                no such job, run or worker in this tenant
    ├── Conflict                the request is fine, the moment is not
    │   ├── KeyInFlight         another request holds this idempotency key right now
    │   ├── KeyReused           this idempotency key came with another request before
    │   ├── JobBusy             the job's run has started: it cannot be replaced now
    │   ├── StaleVersion        the job was edited meanwhile: look at it again
    │   ├── CalendarInUse       jobs leave out the days of this calendar
    │   ├── NoEncryptionKey     what is to be stored must be encrypted, and this process has no key
    │   └── NameTaken           there is one with this name already
    ├── QuotaExceeded           the tenant has as much as it may have
    ├── Overloaded              there is more to do than can be done now: back off and repeat
    ├── AccessDenied            the key is not known, or may not do this
    ├── Closed                  what should have answered was closed meanwhile
    ├── RunFailed               the run whose result was asked for has failed
    ├── RunCancelled            the run whose result was asked for was cancelled or skipped
    ├── LeaseLost               the run (or the worker's lease) belongs to someone else by now
    ├── StoreError              the database said no
    │   ├── StoreUnavailable    it cannot be reached or asks to try again: back off and repeat
    │   │   └── ServerUnavailable   the same of a duetime server
    │   │       └── RateLimited     the caller has used up a limit; nothing was changed
    │   ├── StoreRejected       it refuses these very rows: repeating cannot help
    │   ├── SealBroken          what it keeps encrypted cannot be opened: it was changed
    │   │   └── KeyUnknown          it was encrypted with a key that is not known here
    │   ├── StoreRewound        it has lost what this process knows of it: start the process again
    │   └── SchemaMismatch      its schema is not one that this code knows
    └── StoreLocked             the embedded file belongs to another process

A message says what was wrong; `field` names the part of the input at fault; `remedy` says what to do.
"""


class DuetimeError(Exception):
    """The root of everything that duetime raises on purpose."""

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
    """What the caller gave cannot be accepted; nothing was changed."""


class SettingsError(InvalidInput):
    """A setting is unknown, or its value cannot be used."""


class NotFound(DuetimeError):
    """No such thing in this tenant; another tenant's thing answers exactly the same."""


class Conflict(DuetimeError):
    """The request is fine, but it cannot be done at this moment."""


class KeyInFlight(Conflict):
    """Another request with this idempotency key has not committed yet."""


class KeyReused(Conflict):
    """This idempotency key was used before, for a different request."""


class JobBusy(Conflict):
    """The job's run has started already, so the job cannot be replaced."""


class StaleVersion(Conflict):
    """The edit was made for a version of the job that is not the current one."""


class CalendarInUse(Conflict):
    """A calendar cannot be deleted while jobs leave out its days."""


class NoEncryptionKey(Conflict):
    """What is to be stored must be encrypted, and this process has no key to do it with."""


class NameTaken(Conflict):
    """There is one with this name already."""


class QuotaExceeded(DuetimeError):
    """The tenant has as much as it may have; it can be tried again when it has less."""


class Overloaded(DuetimeError):
    """There is more to do than can be done now; the same can be tried again in a moment."""


class AccessDenied(DuetimeError):
    """The key is not known, or may not do this."""


class Closed(DuetimeError):
    """What should have answered was closed meanwhile; what it was asked to do may have happened."""


class RunFailed(DuetimeError):
    """The run whose result was asked for has failed."""


class RunCancelled(DuetimeError):
    """The run whose result was asked for was cancelled or skipped."""


class LeaseLost(DuetimeError):
    """The right to this run is over; its result must be dropped."""


class StoreError(DuetimeError):
    """The database said no."""


class StoreUnavailable(StoreError):
    """The database cannot be reached, or asks to be tried again."""


class ServerUnavailable(StoreUnavailable):
    """The server cannot be reached, or asks to be tried again."""

    retry_after: float | None = None
    """Seconds that the server asks to wait."""


class RateLimited(ServerUnavailable):
    """The caller has used up a limit, and is to wait for `retry_after` seconds. Nothing was changed."""


class StoreRejected(StoreError):
    """The database refuses these rows; the same rows will be refused again."""

    @classmethod
    def because(cls, cause: BaseException) -> "StoreRejected":
        """What the database said names tables and columns: it is kept as the cause, for the log (`reason_of`)."""
        error = cls("a value cannot be stored", remedy="look for unusual characters, and for what is too large")
        error.__cause__ = cause
        return error


class SealBroken(StoreError):
    """What is stored encrypted cannot be opened: its key is not known here, or it was changed."""


class KeyUnknown(SealBroken):
    """What is stored encrypted needs a key that this process does not have."""


class StoreRewound(StoreError):
    """The database went back to a time before what this process knows: it was restored, or a replica took over."""


class SchemaMismatch(StoreError):
    """The schema of the database is not one that this code can run on."""


class StoreLocked(DuetimeError):
    """The embedded database file belongs to another process."""

    owner_serves = False
    """Whether that process keeps the file for as long as it runs, and can be reached over HTTP."""


def never_ran(job_id: str) -> Conflict:
    """For who waits for the end of a run that will never be."""
    return Conflict(f"{job_id} is over and never ran: there is nothing to wait for", field="job")


def reason_of(error: BaseException) -> str:
    """Why, as text for the operator's log: where an exception has no text, as most timeouts, its class says it."""
    try:
        text = str(error).strip()
        if isinstance(error, StoreRejected) and error.__cause__ is not None:
            text = f"{error.message}: {error.__cause__}"
    except Exception:
        text = ""
    return text or type(error).__name__
