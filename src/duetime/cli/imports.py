"""What all imports share: show what each entry becomes and what would change, ask, then store it.

An entry has a key, so that importing the same source again changes nothing, and a changed entry edits its job. Nothing
is stored before the answer, and then everything is, or nothing.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
import typer
from rich.markup import escape

from duetime.cli.output import err, out
from duetime.cli.server_commands import ServerCommand
from duetime.errors import InvalidInput

_SHOWN = {"task", "name", "queue", "priority", "overlap", "tags"}
"""Options that a stored job shows as they are given."""
_SCHEDULE = ("cron", "every", "run_at", "tz", "day_match", "start_at", "end_at")


class Found(msgspec.Struct, frozen=True):
    """An entry of the source, as the job that it becomes."""

    entry: str
    """Its name, or its line."""
    job: dict[str, Any]
    """For `create_jobs`."""
    notes: tuple[str, ...] = ()
    """What is not exactly as in the source."""


class Skipped(msgspec.Struct, frozen=True):
    """An entry that cannot become a job, and why."""

    entry: str
    reason: str


class Planned(msgspec.Struct, frozen=True):
    entry: str
    change: str
    sentence: str
    tz: str
    next_run: datetime | None
    task: str
    name: str | None
    notes: str


def import_jobs(command: ServerCommand, found: Sequence[Found], skipped: Sequence[Skipped], *, yes: bool) -> None:
    good, planned, left_out = _plan(command, found, skipped)
    command.table(planned, "entry change when=sentence tz next_run task name notes", "there is nothing to import")
    for each in left_out:
        err.print(f"[yellow]{escape(each.entry)} is skipped[/]: {escape(each.reason)}", soft_wrap=True)
    if not good:
        raise InvalidInput("contains no entry to import", field="source")
    served = {each.name for each in command.client.list_tasks().items}
    missing = sorted({each.job["task"] for each in good} - served)
    if missing and not command.json:
        warning = f"no worker has the task {', '.join(missing)}: the jobs wait until one has it"
        err.print(f"[yellow]{escape(warning)}[/]", soft_wrap=True)
    if not yes and (command.json or not _agreed(len(good))):
        return
    answer = command.client.create_jobs([each.job for each in good])
    fresh = sum(1 for item in answer.items if item.job is not None and item.job.created)
    command.say(
        f"stored {fresh} jobs, {answer.stored - fresh} existed already",
        stored=fresh,
        known=answer.stored - fresh,
        left_out=len(left_out),
        has_worker=not missing,
    )


def _plan(
    command: ServerCommand, found: Sequence[Found], skipped: Sequence[Skipped]
) -> tuple[list[Found], list[Planned], list[Skipped]]:
    good, planned, left_out = [], [], list(skipped)
    for each in found:
        when = {name: each.job[name] for name in _SCHEDULE if name in each.job}
        try:
            preview = command.client.preview_schedule(count=1, **when)
        except InvalidInput as error:
            left_out.append(Skipped(each.entry, str(error)))
            continue
        good.append(each)
        schedule = preview.schedule
        next_run = preview.fires[0].utc if preview.fires else None
        change = _change(command, each.job, schedule.exact, schedule.tz)
        notes = "; ".join(each.notes)
        planned.append(
            Planned(
                each.entry,
                change,
                schedule.sentence,
                schedule.tz,
                next_run,
                each.job["task"],
                each.job.get("name"),
                notes,
            )
        )
    return good, planned, left_out


def _change(command: ServerCommand, job: dict[str, Any], exact: str, tz: str) -> str:
    """What the import does to the job with this key."""
    live = [
        each
        for each in command.client.list_jobs(key=job["key"]).items
        if each.status in ("ACTIVE", "PAUSED", "PENDING")
    ]
    if not live:
        return "new"
    stored = command.client.get_job(live[0].job_id)
    is_same = stored.args == job.get("args", {}) and all(
        getattr(stored, name) == job[name] for name in _SHOWN & job.keys()
    )
    if stored.schedule.kind == "every":
        # The moment that an interval is counted from belongs to the stored job.
        return "same" if is_same and stored.schedule.exact.split("/")[-1] == exact.split("/")[-1] else "edit"
    return "same" if is_same and (stored.schedule.exact, stored.schedule.tz) == (exact, tz) else "edit"


def _agreed(count: int) -> bool:
    out.print()
    return typer.confirm(f"Create {count} jobs?")
