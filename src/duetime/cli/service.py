"""`queues`, `breakers` and `workers`: the current state of the service."""

from enum import StrEnum
from typing import Annotated, Any

import msgspec
import typer
from rich.markup import escape

from duetime.cli import completion
from duetime.cli.groups import group
from duetime.cli.output import err
from duetime.cli.server_commands import ServerCommand, list_command, server_command
from duetime.wire.service import QueueView

queues = group("Inspect, limit, pause and resume queues; let them go through streams.")

breakers = group("Circuit breakers of failing targets: list, reset.")

QueueName = Annotated[str, typer.Argument(metavar="QUEUE", autocompletion=completion.queue)]


@queues.command("list")
@list_command
def list_queues(command: ServerCommand) -> None:
    """List the queues, with their waiting runs."""
    command.table(
        command.client.list_queues().items,
        "queue=name kind paused high=depth.high medium=depth.medium low=depth.low capped in_stream oldest=oldest_at"
        " running arrivals ends rate held_back",
        "no queue has had a job yet: a queue is created by its first job",
        in_stream=lambda queue: sum(each.depth for each in queue.in_streams) or None,
        kind=lambda queue: queue.kind if queue.stream is None else queue.stream.broker,
        capped=lambda queue: "or more" if queue.depth.capped else None,
        running=lambda queue: (
            queue.running if queue.running_limit is None else f"{queue.running} of {queue.running_limit}"
        ),
        arrivals=lambda queue: f"{queue.arrival_rate:.2f}/s",
        ends=lambda queue: f"{queue.completion_rate:.2f}/s",
    )


@queues.command()
@server_command
def limit(
    command: ServerCommand,
    queue: QueueName,
    running: Annotated[str | None, typer.Option("--running", help="Maximum running runs; none: no limit.")] = None,
    rate: Annotated[
        str | None, typer.Option("--rate", help="Maximum starts per period: 100/m; none: no limit.")
    ] = None,
) -> None:
    """Set the limits of a queue. Limits that are not given stay unchanged."""
    said: dict[str, Any] = {}
    if running is not None:
        said["running"] = _count_or_none(running, "running")
    if rate is not None:
        said["rate"] = None if rate == "none" else rate
    command.show(command.client.put_queue(queue, **said) if said else command.client.get_queue(queue))


@queues.command("show")
@server_command
def show_queue(command: ServerCommand, queue: QueueName) -> None:
    """Show a queue: its waiting runs, its limits and its stream."""
    _show(command, command.client.get_queue(queue))


@queues.command()
@server_command
def demand(
    command: ServerCommand,
    queue: QueueName,
    minutes: Annotated[int | None, typer.Option("--minutes", help="How far to look ahead; 0: not at all.")] = None,
    slots: Annotated[int | None, typer.Option("--slots", help="Runs that one worker runs at once.")] = None,
    lag: Annotated[str | None, typer.Option("--lag", help="How late a run may start: 10s.")] = None,
    duration: Annotated[str | None, typer.Option("--duration", help="How long a run takes.")] = None,
    rate: Annotated[str | None, typer.Option("--rate", help="How many runs one worker can start: 2000/s.")] = None,
) -> None:
    """Show how many workers a queue needs, now and in the next minutes, and why."""
    found = command.client.get_demand(queue, minutes=minutes, slots=slots, lag=lag, duration=duration, rate=rate)
    command.show(found if command.json else msgspec.structs.replace(found, notes=()))
    if not command.json:
        for note in found.notes:
            err.print(f"[yellow]{escape(note)}[/]", soft_wrap=True)


@queues.command("set")
@server_command
def set_queue(
    command: ServerCommand,
    queue: QueueName,
    stream: Annotated[
        str | None,
        typer.Option("--stream", metavar="ADDRESS", help="The broker: redis://…, kafka://…, sqs://… or amqp://…."),
    ] = None,
    store: Annotated[bool, typer.Option("--store", help="Let the runs go through the store again.")] = False,
    only: Annotated[
        bool | None, typer.Option("--only/--not-only", help="Refuse runs that cannot be carried by the stream.")
    ] = None,
    fallback: Annotated[
        bool | None, typer.Option("--fallback/--no-fallback", help="Store runs while the broker is unavailable.")
    ] = None,
    max_depth: Annotated[
        str | None, typer.Option("--max-depth", help="Refuse runs while more are in the stream; none: no limit.")
    ] = None,
    replicas: Annotated[
        str | None, typer.Option("--replicas", help="Redis: how many replicas must have a run; none: not checked.")
    ] = None,
) -> None:
    """Let the runs of a queue go through a stream at a broker, or through the store. Needs a root key. Settings that
    are not given stay unchanged."""
    given = {"address": stream, "only": only, "fallback": fallback}
    said: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    for flag, text in (("max_depth", max_depth), ("replicas", replicas)):
        if text is not None:
            said[flag] = _count_or_none(text, flag)
    if store == bool(said):
        raise typer.BadParameter("give either --store or settings of a stream, such as --stream redis://host/0")
    _show(command, command.client.put_queue(queue, stream=None if store else said))


def _show(command: ServerCommand, queue: QueueView) -> None:
    """Sentences about the stream come after the fields, one per line."""
    command.show(queue if command.json else msgspec.structs.replace(queue, notes=(), in_streams=()))
    if not command.json:
        command.say_in_streams(queue.in_streams)
        for note in queue.notes:
            err.print(f"[yellow]{escape(note)}[/]", soft_wrap=True)


def _count_or_none(text: str, flag: str) -> int | None:
    if text != "none" and not text.isdecimal():
        raise typer.BadParameter("a whole number, or none", param_hint=f"--{flag.replace('_', '-')}")
    return None if text == "none" else int(text)


@queues.command()
@server_command
def pause(command: ServerCommand, queue: QueueName) -> None:
    """Start no more runs from a queue; running ones go on."""
    known = {each.name for each in command.client.list_queues().items}
    command.show(command.client.pause_queue(queue))
    if queue not in known and not command.json:
        err.print(f"[yellow]the queue {escape(queue)} has never had a job: check the spelling[/]", soft_wrap=True)


@queues.command()
@server_command
def resume(command: ServerCommand, queue: QueueName) -> None:
    """Start the runs of a paused queue again."""
    command.show(command.client.resume_queue(queue))


@breakers.command("list")
@list_command
def list_breakers(command: ServerCommand) -> None:
    """List the open breakers, and the targets that were called within 30 seconds."""
    command.table(
        command.client.list_breakers().items,
        "target state since until tried failed retried",
        "no breaker is open, and no target was called within 30 seconds",
    )


@breakers.command()
@server_command
def reset(command: ServerCommand, target: Annotated[str, typer.Argument(metavar="TARGET")]) -> None:
    """Close a breaker now: its target is called again, and counting starts over."""
    command.show(command.client.reset_breaker(target))


@list_command
def workers(
    command: ServerCommand,
    past: Annotated[
        bool, typer.Option("--past", help="Those that left or were lost within a day, and what became of their runs.")
    ] = False,
) -> None:
    """List the workers, with their tasks and slots."""
    found = command.client.list_workers()
    if past:
        command.table(
            found.past,
            "worker_id name state ended=ended_at reason held runs tasks",
            "no worker has left or was lost within a day",
            runs=lambda worker: [f"{run.run_id} {run.status}" for run in worker.runs] or None,
        )
        return
    command.table(
        found.items,
        "worker_id name alive heard=heard_at version slots queues tasks",
        "no workers. Start one: duetime worker MODULE:APP",
        queues=lambda worker: worker.queues or "all",
    )


# A minute is counted after it has ended (`model/trends.py`).
_NEWEST_FIGURES = "the newest figures are up to two minutes old"


class TrendRange(StrEnum):
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"


@list_command
def trends(
    command: ServerCommand,
    range: Annotated[TrendRange, typer.Option("--range", help="The last hour, day or week.")] = TrendRange.HOUR,
) -> None:
    """Show lag, duration and throughput over the last hour, day or week. Steps in which nothing ended are omitted. The
    newest figures are up to two minutes old."""
    found = command.client.get_trends(range.value)
    steps = [step for step in found.steps if step.duration or step.succeeded or step.failed]
    command.table(
        steps,
        "at succeeded failed retried lost lag_p50=lag.p50 lag_p95=lag.p95 took_p50=duration.p50 took_p95=duration.p95",
        f"nothing ended in this time; {_NEWEST_FIGURES}",
    )
    if command.form == "text" and steps:
        err.print(f"[dim]{_NEWEST_FIGURES}[/]", soft_wrap=True)
