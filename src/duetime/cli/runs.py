"""`runs` and `dead`: inspect runs, and repair failures."""

from collections.abc import Iterable
from typing import Annotated, Any, TypedDict, Unpack

import typer
from rich.progress import Progress

from duetime.cli import completion
from duetime.cli.follow import follow
from duetime.cli.groups import group
from duetime.cli.jobs import Limit
from duetime.cli.named_jobs import RunId, job_id_of, run_id_of
from duetime.cli.options import IdempotencyKey
from duetime.cli.output import err
from duetime.cli.run_view import show_run, show_why
from duetime.cli.server_commands import ServerCommand, Yes, limited, list_command, server_command
from duetime.clock import monotonic
from duetime.errors import DuetimeError
from duetime.wire.runs import LONGEST_DELAY

runs = group("Inspect, cancel and retry runs.")
dead = group("Dead letters, runs that used up their attempts: inspect, replay, discard.")

_WAITING = ("PENDING", "BLOCKED", "RETRYING", "IN_STREAM")
_COUNTED = 1000
"""The maximum count in a confirmation question."""

MaybeRun = Annotated[str | None, typer.Argument(metavar="RUN", help="Only this run.")]
Task = Annotated[str | None, typer.Option("--task", autocompletion=completion.task)]
Queue = Annotated[str | None, typer.Option("--queue", autocompletion=completion.queue)]
Job = Annotated[
    str | None, typer.Option("--job", help="Only runs of this job: its id or key.", autocompletion=completion.job)
]
Everything = Annotated[bool, typer.Option("--all", help="All dead letters, if no filter is given.")]

AT_ONCE = 1000
_IN_ONE_REQUEST = 1000
_NO_MATCH = ": no dead letter matches; a run that was replayed or discarded before is none any more"
"""The number of dead letters per request."""


class DeadFilter(TypedDict):
    """Which dead letters."""

    task: Task
    queue: Queue
    job: Job
    error: Annotated[str | None, typer.Option("--error", help="Only runs whose error contains this text.")]
    fingerprint: Annotated[str | None, typer.Option("--fingerprint", help="Only runs of this error group.")]


@runs.command("list")
@list_command
def list_runs(
    command: ServerCommand,
    job: Job = None,
    status: Annotated[
        str | None, typer.Option("--status", help="Such as RUNNING, FAILED.", autocompletion=completion.run_status)
    ] = None,
    task: Task = None,
    queue: Queue = None,
    owner: Annotated[str | None, typer.Option("--owner", help="Only runs of jobs of this owner.")] = None,
    since: Annotated[str | None, typer.Option("--since", help="Due at or after this time.")] = None,
    until: Annotated[str | None, typer.Option("--until", help="Due before this time.")] = None,
    limit: Limit = 50,
) -> None:
    """List runs, newest first. Continues into the archive of history, if there is one."""
    bounds: dict[str, Any] = {"start_time": since, "end_time": until, "page_size": min(limit, 200)}
    found = (
        command.client.runs(status=status, task=task, queue=queue, owner=owner, **bounds)
        if job is None
        else command.client.runs_of_job(job_id_of(command, job), status=status, **bounds)
    )
    show_runs(command, limited(found, limit), "no runs match. duetime jobs lists the jobs, with their next runs")
    if command.form == "text":
        command.say_in_streams(command.client.list_runs(queue=queue, page_size=1).in_streams)


def show_runs(command: ServerCommand, found: Iterable[Any], empty: str) -> None:
    command.table(
        found,
        "run_id task status attempt due=due_at lag archived error",
        empty,
        lag=lambda run: None if run.lag is None else f"{run.lag:.3f} s",
        archived=lambda run: "yes" if run.archived else None,
        error=lambda run: first_line(run.error),
    )


@runs.command()
@server_command
def show(
    command: ServerCommand,
    run: RunId,
    following: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Print what happens until the run ends; exits with 1 on failure."),
    ] = False,
) -> None:
    """Show a run: its attempts on a timeline, with their logs and errors, and its result."""
    run = run_id_of(run)
    if following:
        if follow(command, run).status != "SUCCEEDED":
            raise typer.Exit(1)
        return
    found = command.client.get_run(run)
    if command.json:
        command.show(found)
    else:
        show_run(found, command.client.explain_run(run) if found.status in _WAITING else None)


@runs.command()
@server_command
def why(command: ServerCommand, run: RunId) -> None:
    """Say why a run waits, and what to do about it."""
    show_why(command, command.client.explain_run(run_id_of(run)))


@runs.command()
@server_command
def cancel(command: ServerCommand, run: RunId) -> None:
    """Cancel a run that waits, or ask a running one to stop."""
    command.show(command.client.cancel_run(run_id_of(run)))


@runs.command()
@server_command
def retry(command: ServerCommand, run: RunId, idempotency_key: IdempotencyKey = None) -> None:
    """Retry a run. A run that has ended is repeated once, by a new run."""
    command.show(command.client.retry_run(run_id_of(run), idempotency_key=idempotency_key))


@dead.command("list")
@list_command
def list_dead(command: ServerCommand, limit: Limit = 50, **wanted: Unpack[DeadFilter]) -> None:
    """List dead letters, newest first."""
    found = command.client.dead_letters(**_given(command, None, wanted), page_size=min(limit, 200))
    command.table(
        limited(found, limit),
        "run_id task died=died_at attempts=attempt fingerprint error",
        "no dead letters match: nothing has used up its attempts",
        error=lambda letter: first_line(letter.error),
    )


@dead.command("groups")
@list_command
def list_groups(command: ServerCommand, limit: Limit = 50) -> None:
    """Group dead letters by error, the largest groups first."""
    command.table(
        command.client.group_dead_letters(limit=min(limit, 200)).groups,
        "fingerprint count tasks first=first_died_at last=last_died_at error",
        "no dead letters: nothing has used up its attempts",
        error=lambda group: first_line(group.error),
    )


@dead.command()
@server_command
def replay(
    command: ServerCommand,
    run: MaybeRun = None,
    everything: Everything = False,
    rate: Annotated[float, typer.Option("--rate", min=0.001, max=10_000, help="Runs per second.")] = 100.0,
    idempotency_key: IdempotencyKey = None,
    **filters: Unpack[DeadFilter],
) -> None:
    """Replay dead letters as new runs: one, those that match, or --all. With --idempotency-key in one request: up to
    1,000."""
    if idempotency_key is not None:
        _replay_once(command, _chosen(command, run, filters, everything=everything), rate, idempotency_key)
        return
    wanted = _wanted(command, run, filters, everything=everything)
    count, more, began = 0, True, monotonic()
    try:
        with Progress(console=err, transient=True, disable=command.json) as progress:
            under_way = progress.add_task("replaying", total=None)
            while more:
                # Each request starts where the previous one ends: together they keep to the rate.
                delay = max(0.0, began + count / rate - monotonic())
                if delay > LONGEST_DELAY:
                    raise DuetimeError(
                        "at this rate the next run would start more than a day from now",
                        remedy="raise --rate, or repeat the command when these have started",
                    )
                answer = command.client.replay_dead_letters(limit=AT_ONCE, rate=rate, delay=delay, **wanted)
                count, more = count + len(answer.runs), answer.more and bool(answer.runs)
                progress.update(under_way, completed=count)
    except DuetimeError:
        if count:
            command.say(f"replayed {count:,}; the others were not", replayed=count)
        raise
    command.say(f"replayed {count:,}{'' if count else _NO_MATCH}", replayed=count)


def _replay_once(command: ServerCommand, wanted: dict[str, Any], rate: float, idempotency_key: str) -> None:
    """One request, which is the same when the command is repeated: without the time of the command."""
    answer = command.client.replay_dead_letters(
        limit=_IN_ONE_REQUEST, rate=rate, idempotency_key=idempotency_key, **wanted
    )
    count = len(answer.runs)
    rest = "; there are more: repeat the command with another key" if answer.more else ""
    command.say(f"replayed {count:,}{rest if count else _NO_MATCH}", replayed=count)


@dead.command()
@server_command
def discard(
    command: ServerCommand,
    run: MaybeRun = None,
    everything: Everything = False,
    yes: Yes = False,
    **filters: Unpack[DeadFilter],
) -> None:
    """Remove dead letters: one, those that match, or --all. Asks for confirmation before it removes more than one."""
    wanted = _wanted(command, run, filters, everything=everything)
    if run is None and command.must_confirm(yes=yes):
        _agree_to_discard(command, wanted)
    count = 0
    while discarded := command.client.discard_dead_letters(limit=AT_ONCE, **wanted).discarded:
        count += discarded
    command.say(f"removed {count:,}", discarded=count)


def _agree_to_discard(command: ServerCommand, wanted: dict[str, Any]) -> None:
    found = len(limited(command.client.dead_letters(**wanted, page_size=200), _COUNTED + 1))
    if found:
        counted = f"more than {_COUNTED:,}" if found > _COUNTED else f"{found:,}"
        command.confirm(f"Remove {counted} dead letters? They cannot be replayed afterwards.")


def first_line(text: str | None) -> str:
    return (text or "").partition("\n")[0][:100]


def _given(command: ServerCommand, run: str | None, filters: DeadFilter) -> dict[str, Any]:
    """The filters that are given, with the ids of a run and a job."""
    wanted: dict[str, Any] = {name: value for name, value in filters.items() if value is not None}
    if "job" in wanted:
        wanted["job_id"] = job_id_of(command, wanted.pop("job"))
    return wanted if run is None else wanted | {"run_id": run_id_of(run)}


def _wanted(command: ServerCommand, run: str | None, filters: DeadFilter, *, everything: bool) -> dict[str, Any]:
    """The filter, restricted to runs that are dead by now, on the server's clock. While the cause persists, replayed
    runs die again, and would be replayed forever."""
    return _chosen(command, run, filters, everything=everything) | {"end_time": command.client.get_me().now}


def _chosen(command: ServerCommand, run: str | None, filters: DeadFilter, *, everything: bool) -> dict[str, Any]:
    wanted = _given(command, run, filters)
    if not wanted and not everything:
        raise typer.BadParameter("give a RUN, --task, --queue, --job, --error, --fingerprint or --all")
    return wanted
