"""Why an attempt did not succeed: a closed list, so that metrics and policies can name every member."""

import msgspec

from duetime.model.stored_enum import StoredEnum

ERROR_LIMIT = 4_000
TRACEBACK_LIMIT = 16_000


class FailureClass(StoredEnum):
    """The class of a failure. The numbers are stored: never reuse one."""

    ERROR = 1
    """The task raised."""
    TIMEOUT = 2
    """It exceeded its timeout."""
    LOST = 3
    """Its worker died or was cut off."""
    CANCELLED = 4
    """It was cancelled by request, or by the task itself."""
    TARGET_REFUSED = 5
    """The target answered that it will never accept this."""
    TARGET_FAILED = 6
    """The target answered that it could not do it now."""
    NETWORK = 7
    """The target could not be reached."""
    GAVE_UP = 8
    """The task declared that a retry is useless."""

    @property
    def label(self) -> str:
        return self.name.lower()


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """What went wrong in one attempt, bounded in size."""

    kind: FailureClass
    message: str
    error_types: tuple[str, ...] = ()
    """The qualified names of the exception's class and its bases, most specific first."""
    traceback: str | None = None
    retry_after: float | None = None
    """Seconds that the task or target asked to wait, instead of the policy's backoff."""
    final: bool = False
    """Whether a retry is useless, whatever the policy: the executor's decision."""
    pauses_job: bool = False
    """The receiver is permanently gone: the job is paused until an operator resumes it."""

    @property
    def cause(self) -> str:
        """The exception's class and message, or what else went wrong."""
        said = f"{self.error_types[0]}: {self.message}" if self.error_types else self.message
        return bounded(said, ERROR_LIMIT)

    @property
    def text(self) -> str:
        """One line of cause, then the traceback if there is one; safe for every store."""
        parts = [self.cause]
        if self.traceback:
            parts.append(bounded(self.traceback, TRACEBACK_LIMIT))
        return "\n".join(parts)


def bounded(text: str, limit: int) -> str:
    """Text cut to the limit, with its head and its tail, without characters that a database refuses."""
    clean = text.replace("\x00", "\N{SYMBOL FOR NULL}").encode("utf-8", "backslashreplace").decode()
    if len(clean) <= limit:
        return clean
    half = limit // 2 - 10
    return f"{clean[:half]}\n… {len(clean) - 2 * half} characters …\n{clean[-half:]}"
