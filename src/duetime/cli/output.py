"""What commands print, and their exit codes.

    0  done              3  the database or the server is unreachable or unusable
    1  failed            4  this duetime cannot run on the schema
    2  wrong usage       5  the embedded file belongs to another process
                         6  the key is unknown, or lacks the permission

Text is for people and goes through rich; `--json` prints one JSON object per line for scripts. Whatever a submitter, a
worker or a receiver put into either, the terminal gets no control characters except those that rich writes itself.
"""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NoReturn, TextIO

import typer
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from duetime.cli.start_hooks import hook_of
from duetime.errors import AccessDenied, DuetimeError, InvalidInput, SchemaMismatch, StoreError, StoreLocked
from duetime.text.visible import visible_json, visible_lines
from duetime.worker.context import log_ids


class _SafeConsole(Console):
    """Every string that rich lays out, measures or prints passes `render_str`."""

    def render_str(self, text: str, **how: Any) -> Text:
        return super().render_str(visible_lines(text), **how)


out = _SafeConsole(highlight=False, emoji=False)
err = _SafeConsole(stderr=True, highlight=False, emoji=False)

_FIELDS = ("job_id", "run_id", "attempt", "tenant_id", "task", "queue", "failure", "retried", "retry_in")
_CODES: tuple[tuple[type[DuetimeError], int], ...] = (
    (InvalidInput, 2),
    (SchemaMismatch, 4),
    (StoreError, 3),
    (StoreLocked, 5),
    (AccessDenied, 6),
)


def say(text: str, *, json: bool, **facts: Any) -> None:
    """Report one event: a line for people, in rich's markup, or an object for scripts."""
    if json:
        print_json(facts)
    else:
        out.print(text, soft_wrap=True)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person reads it, whatever rich's colour settings say. Python has None for a closed stream."""
    return stream is not None and stream.isatty()


def print_json(value: object) -> None:
    """One object, on its own line."""
    sys.stdout.write(visible_json(value, enc_hook=str) + "\n")
    sys.stdout.flush()


def code_of(error: type[DuetimeError]) -> int:
    return next((code for kind, code in _CODES if issubclass(error, kind)), 1)


def fail(error: DuetimeError, *, json: bool) -> NoReturn:
    """Print the error in one line, and exit with its code."""
    code, place = code_of(type(error)), hook_of(error)
    if json:
        facts = {
            "error": type(error).__name__,
            "message": error.message,
            "field": error.field,
            "remedy": error.remedy,
        }
        print_json(facts if place is None else facts | {"place": place.text})
    else:
        text = str(error) if place is None else f"{place.text}: {error}"
        err.print(f"[bold red]error[/]  {escape(' '.join(text.split()))}", soft_wrap=True)
    raise typer.Exit(code)


@contextmanager
def clear_errors(*, json: bool) -> Iterator[None]:
    """Turn duetime's errors, alone or in a group, into one line and an exit code. An error in a start hook of the app
    is the user's: its traceback begins there."""
    try:
        yield
    except DuetimeError as error:
        fail(error, json=json)
    except BaseExceptionGroup as group:
        causes = list(_leaves(group))
        known = next((cause for cause in causes if isinstance(cause, DuetimeError)), None)
        if known is not None:
            fail(known, json=json)
        for cause in causes:
            if (place := hook_of(cause)) is not None:
                err.print(place.traceback, markup=False, soft_wrap=True)
                fail(DuetimeError(f"{place.text} failed: {type(cause).__name__}: {cause}"), json=json)
        if len(causes) == 1:
            raise causes[0] from None  # its own traceback says where; the group adds nothing
        raise


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for inner in group.exceptions:
        if isinstance(inner, BaseExceptionGroup):
            yield from _leaves(inner)
        else:
            yield inner


def set_up_logging(level: str, form: str) -> None:
    """Logs go to standard error, so that standard output stays clean."""
    handler = logging.StreamHandler(sys.stderr)
    for_people = form == "text" or (form == "auto" and sys.stderr.isatty())
    handler.setFormatter(_TextFormatter() if for_people else _JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


class _TextFormatter(logging.Formatter):
    """A record begins at the left edge, and the rest of it is indented: no message can pass for another record."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:
        ids = _ids(record)
        where = f"  ({ids['run_id']}, attempt {ids['attempt']})" if ids else ""
        return super().formatMessage(record) + where

    def format(self, record: logging.LogRecord) -> str:
        return visible_lines(super().format(record).rstrip(), indent="  ")


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_ids(record),
        }
        if record.exc_text:
            line["traceback"] = record.exc_text
        elif record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return visible_json(line, enc_hook=str)


def _ids(record: logging.LogRecord) -> dict[str, Any]:
    """The attempt that a line is about: named by the record, otherwise the one that it was written in."""
    if "run_id" not in record.__dict__:
        return dict(log_ids())
    return {name: record.__dict__[name] for name in _FIELDS if name in record.__dict__}
