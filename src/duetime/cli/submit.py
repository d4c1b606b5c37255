"""`submit` and `schedule`: one job, or a file of them."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.markup import escape
from rich.progress import Progress

from duetime.cli.output import err
from duetime.cli.talking import Talk, read_lines, shown, talks
from duetime.errors import InvalidInput

_BATCH = 1000

TaskName = Annotated[str, typer.Argument(metavar="TASK", help="What to run: a task that workers have.")]
MaybeTask = Annotated[str | None, typer.Argument(metavar="TASK", help="What to run: a task that workers have.")]
Arguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME=VALUE…", help="Arguments: [bold]to=you[/] is text, [bold]count:=3[/] is JSON."),
]
Args = Annotated[str | None, typer.Option("--args", help="All arguments as one JSON object.")]
Queue = Annotated[str | None, typer.Option("--queue", help="The queue it waits in.")]
Priority = Annotated[str | None, typer.Option("--priority", help="HIGH, MEDIUM or LOW.")]
Retries = Annotated[int | None, typer.Option("--retries", help="Attempts after the first one.")]
Timeout = Annotated[str | None, typer.Option("--timeout", help="How long an attempt may take, such as 30s.")]
JobName = Annotated[str | None, typer.Option("--name", help="A name for people.")]
Owner = Annotated[str | None, typer.Option("--owner", help="The user that it belongs to.")]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="A tag; may be repeated.")]
JobKey = Annotated[
    str | None, typer.Option("--job-key", help="One live job of this key: the same again changes nothing.")
]


@talks
def submit(
    talk: Talk,
    task: MaybeTask = None,
    arguments: Arguments = None,
    args: Args = None,
    run_at: Annotated[str | None, typer.Option("--at", help="When, such as 2027-01-31T09:00:00Z.")] = None,
    run_in: Annotated[str | None, typer.Option("--in", help="After how long, such as 10m.")] = None,
    queue: Queue = None,
    priority: Priority = None,
    retries: Retries = None,
    timeout: Timeout = None,
    name: JobName = None,
    owner: Owner = None,
    tag: Tags = None,
    job_key: JobKey = None,
    idempotency_key: Annotated[
        str | None, typer.Option("--idempotency-key", help="Submitting again with it gives the first answer again.")
    ] = None,
    wait: Annotated[str | None, typer.Option("--wait", help="Wait this long for the result, such as 30s.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="A file of jobs, one JSON object a line (- reads them from a pipe).")
    ] = None,
) -> None:
    """Run a task once: now, at a time, or after a while."""
    if file is not None:
        _submit_file(talk, file)
        return
    if task is None:
        raise InvalidInput("says what to run", field="task", remedy="name a task, or give --file")
    receipt = talk.client.create_job(
        task,
        args=read_arguments(arguments, args),
        run_at=run_at,
        run_in=run_in,
        idempotency_key=idempotency_key,
        queue=queue,
        priority=priority,
        retries=retries,
        timeout=timeout,
        name=name,
        owner=owner,
        tags=tag,
        key=job_key,
    )
    _warn(talk, receipt.warnings)
    if wait is None:
        talk.show(receipt)
        return
    run = talk.client.wait(receipt.job_id, wait)
    talk.show(run)
    if run.status != "SUCCEEDED":
        raise typer.Exit(1)


@talks
def schedule(
    talk: Talk,
    task: TaskName,
    when: Annotated[str, typer.Argument(help="A cron line, an interval, or words: [bold]'every weekday at 9am'[/].")],
    arguments: Arguments = None,
    args: Args = None,
    tz: Annotated[str | None, typer.Option("--tz", help="Whose clock it goes by, such as Europe/Berlin.")] = None,
    queue: Queue = None,
    priority: Priority = None,
    retries: Retries = None,
    timeout: Timeout = None,
    name: JobName = None,
    owner: Owner = None,
    tag: Tags = None,
    job_key: JobKey = None,
    misfire: Annotated[str | None, typer.Option("--misfire", help="Of missed ones: latest, skip or all.")] = None,
    overlap: Annotated[
        str | None, typer.Option("--overlap", help="When the last is not over: allow, skip, queue or replace.")
    ] = None,
    jitter: Annotated[str | None, typer.Option("--jitter", help="Move each fire back by up to this.")] = None,
    max_runs: Annotated[int | None, typer.Option("--max-runs", help="End after so many runs.")] = None,
) -> None:
    """Run a task again and again."""
    receipt = talk.client.create_job(
        task,
        args=read_arguments(arguments, args),
        when=when,
        tz=tz,
        queue=queue,
        priority=priority,
        retries=retries,
        timeout=timeout,
        name=name,
        owner=owner,
        tags=tag,
        key=job_key,
        misfire=misfire,
        overlap=overlap,
        jitter=jitter,
        max_runs=max_runs,
    )
    _warn(talk, receipt.warnings)
    talk.show(receipt)


def read_arguments(pairs: list[str] | None, args: str | None) -> dict[str, Any] | None:
    found: dict[str, Any] = {} if args is None else _json(args, "args")
    if not isinstance(found, dict):
        raise InvalidInput("is not a JSON object", field="args", remedy="""such as '{"to": "you"}'""")
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals or not name.strip(":"):
            raise InvalidInput(f"{pair!r} is not an argument", field="arguments", remedy="name=text or name:=json")
        found[name.removesuffix(":")] = _json(value, name[:-1]) if name.endswith(":") else value
    return found or None


def _json(text: str, field: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"is not JSON: {error}", field=field) from None


def _submit_file(talk: Talk, file: Path) -> None:
    jobs = [_json(line, f"line {number}") for number, line in enumerate(read_lines(file), 1) if line.strip()]
    with Progress(console=err, transient=True, disable=talk.json) as progress:
        under_way = progress.add_task("submitting", total=len(jobs))
        for start in range(0, len(jobs), _BATCH):
            batch = jobs[start : start + _BATCH]
            talk.client.create_jobs(batch)
            progress.advance(under_way, len(batch))
    talk.say(f"{len(jobs):,} jobs are stored", stored=len(jobs))


def _warn(talk: Talk, warnings: tuple[str, ...]) -> None:
    if not talk.json:
        for warning in warnings:
            err.print(f"[yellow]{escape(shown(warning))}[/]", soft_wrap=True)
