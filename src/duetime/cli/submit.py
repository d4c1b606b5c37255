"""`submit` and `schedule`: one job, or a file of them."""

import re
from pathlib import Path
from typing import Annotated, Any, Unpack

import typer
from rich.markup import escape
from rich.progress import Progress

from duetime.cli import completion
from duetime.cli.job_options import Args, Arguments, arguments_as_given, check_object, read_arguments, read_json
from duetime.cli.local_zone import fires_by_another_clock, local_zone
from duetime.cli.output import err
from duetime.cli.run_view import show_run
from duetime.cli.server_commands import ServerCommand, read_lines, server_command
from duetime.cli.tables import shown
from duetime.errors import DuetimeError, InvalidInput
from duetime.spec.kinds import read_duration
from duetime.spec.options import OneOffOptions, ScheduleOptions

_BATCH = 1000
_INDEX = re.compile(r"\[([0-9]+)\]")

TaskName = Annotated[str, typer.Argument(metavar="TASK", help="The task to run.", autocompletion=completion.task)]
MaybeTask = Annotated[
    str | None, typer.Argument(metavar="TASK", help="The task to run.", autocompletion=completion.task)
]
TargetJson = Annotated[
    str | None, typer.Option("--target", help="A call or a command that duetime executes itself, as JSON.")
]
CallbackUrl = Annotated[str | None, typer.Option("--callback-url", help="POST the arguments to this URL.")]


@server_command
def submit(
    command: ServerCommand,
    task: MaybeTask = None,
    arguments: Arguments = None,
    args: Args = None,
    target: TargetJson = None,
    callback_url: CallbackUrl = None,
    wait: Annotated[str | None, typer.Option("--wait", help="Wait this long for the result, such as 30s.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="A file with one job per line, as JSON (- reads standard input).")
    ] = None,
    **options: Unpack[OneOffOptions],
) -> None:
    """Run a task once: now, at a time, or after a delay."""
    # Parsed before the job is created: otherwise an error would leave a job that the caller does not know of.
    timeout = None if wait is None else read_duration(wait, "wait").total_seconds()
    if file is not None:
        _submit_file(command, file)
        return
    if target is not None or callback_url is not None:
        # With a target there is no task, so the first word is an argument too.
        task, arguments = None, [*([] if task is None else [task]), *(arguments or [])]
    elif task is None:
        remedy = "give a task, --target, --callback-url or --file"
        raise InvalidInput("is required", field="task", remedy=remedy)
    with arguments_as_given(arguments):
        receipt = command.client.create_job(
            task,
            target=None if target is None else read_json(target, "target"),
            callback_url=callback_url,
            args=read_arguments(arguments, args),
            **options,
        )
    _warn(command, receipt.warnings)
    if timeout is None:
        command.show(receipt)
        return
    try:
        run = command.client.wait(receipt.job_id, timeout)
    except DuetimeError as error:
        raise _retold(error, f"{receipt.job_id} is stored, but waiting for it failed: {error.message}") from None
    if command.json:
        command.show(run)
    else:
        show_run(run)
    if run.status != "SUCCEEDED":
        raise typer.Exit(1)


@server_command
def schedule(
    command: ServerCommand,
    task: TaskName,
    timing: Annotated[
        str | None,
        typer.Argument(
            metavar="[WHEN]", help="A cron line or rule, an interval, or words: [bold]'every weekday at 9am'[/]."
        ),
    ] = None,
    arguments: Arguments = None,
    args: Args = None,
    target: TargetJson = None,
    callback_url: CallbackUrl = None,
    **options: Unpack[ScheduleOptions],
) -> None:
    """Run a task repeatedly. With --target or --callback-url there is no task: WHEN comes first."""
    wanted: str | None = task
    if target is not None or callback_url is not None:
        wanted, timing, arguments = None, task, [*([] if timing is None else [timing]), *(arguments or [])]
    if timing is not None:
        options["when"] = timing
    elif options.keys().isdisjoint(("cron", "every", "when", "rrule", "after")):
        raise InvalidInput("WHEN is required", field="when", remedy="""such as 'every weekday at 9am', or --cron""")
    with arguments_as_given(arguments):
        receipt = command.client.create_job(
            wanted,
            target=None if target is None else read_json(target, "target"),
            callback_url=callback_url,
            args=read_arguments(arguments, args),
            **options,
        )
    schedule = options.get("when") or options.get("cron") or options.get("rrule")
    zone = local_zone() if "tz" not in options and schedule is not None else None
    meant = zone is not None and schedule is not None and fires_by_another_clock(schedule, zone)
    there = command.client.get_job(receipt.job_id).schedule.tz if meant else zone
    hint = [] if there == zone else [f"its times are {there}; use --tz {zone} for your time zone"]
    _warn(command, (*receipt.warnings, *hint))
    command.show(receipt)


def _submit_file(command: ServerCommand, file: Path) -> None:
    numbered = {number: _job(line, f"line {number}") for number, line in enumerate(read_lines(file), 1) if line.strip()}
    lines, jobs = list(numbered), list(numbered.values())
    with Progress(console=err, transient=True, disable=command.json or not err.is_terminal) as progress:
        under_way = progress.add_task("submitting", total=len(jobs))
        for start in range(0, len(jobs), _BATCH):
            batch = jobs[start : start + _BATCH]
            try:
                command.client.create_jobs(batch)
            except DuetimeError as error:
                raise _in_file(error, lines[start:], stored=start) from None
            progress.advance(under_way, len(batch))
    command.say(f"stored {len(jobs):,} jobs", stored=len(jobs))


def _job(line: str, field: str) -> dict[str, Any]:
    return check_object(read_json(line, field), field, """such as {"task": "greet"}""")


def _in_file(error: DuetimeError, lines: list[int], *, stored: int) -> DuetimeError:
    """An error of a batch in terms of the file's lines, with how much of the file is already stored."""
    field, remedy = error.field, error.remedy
    if index := _INDEX.match(field or ""):
        field = f"line {lines[int(index[1])]}{index.string[index.end() :]}"
        remedy = "fix it and submit again" if not stored else f"fix it and submit from line {lines[0]} on"
    already = f"; {stored:,} jobs above line {lines[0]} are stored" if stored else ""
    return _retold(error, error.message + already, field, remedy)


def _retold(error: DuetimeError, message: str, field: str | None = None, remedy: str | None = None) -> DuetimeError:
    """An error of the same class, which ends the command with the same exit code."""
    return type(error)(message, field=field or error.field, remedy=remedy or error.remedy)


def _warn(command: ServerCommand, warnings: tuple[str, ...]) -> None:
    if not command.json:
        for warning in warnings:
            err.print(f"[yellow]{escape(shown(warning))}[/]", soft_wrap=True)
