"""`queues`, `breakers`, `workers` and `tail`: the current state of the service."""

from typing import Annotated, Any

import typer
from rich.markup import escape

from duetime.cli.groups import group
from duetime.cli.output import err
from duetime.cli.server_commands import ServerCommand, server_command, shown

queues = group("Inspect, limit, pause and resume queues.")

breakers = group("Circuit breakers of failing targets: list, reset.")

QueueName = Annotated[str, typer.Argument(metavar="QUEUE")]


@queues.command("list")
@server_command
def list_queues(command: ServerCommand) -> None:
    """List the queues, with their waiting runs."""
    command.table(
        command.client.list_queues().items,
        "queue=name paused high=depth.high medium=depth.medium low=depth.low _ running rate held_back",
        _=lambda queue: "or more" if queue.depth.capped else "",
        running=lambda queue: "" if queue.running is None else f"{queue.running} of {queue.running_limit}",
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
        if running != "none" and not running.isdecimal():
            raise typer.BadParameter("a whole number, or none", param_hint="--running")
        said["running"] = None if running == "none" else int(running)
    if rate is not None:
        said["rate"] = None if rate == "none" else rate
    command.show(command.client.put_queue(queue, **said) if said else command.client.get_queue(queue))


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
@server_command
def list_breakers(command: ServerCommand) -> None:
    """List the open breakers, and the targets that were called within 30 seconds."""
    command.table(command.client.list_breakers().items, "target state since until tried failed retried")


@breakers.command()
@server_command
def reset(command: ServerCommand, target: Annotated[str, typer.Argument(metavar="TARGET")]) -> None:
    """Close a breaker now: its target is called again, and counting starts over."""
    command.show(command.client.reset_breaker(target))


@server_command
def workers(command: ServerCommand) -> None:
    """List the workers, with their tasks and slots."""
    command.table(
        command.client.list_workers().items,
        "worker_id name alive heard=heard_at version slots queues tasks",
        queues=lambda worker: worker.queues or "all",
    )


@server_command
def tail(
    command: ServerCommand,
    after: Annotated[str | None, typer.Option("--after", help="Continue after this event.")] = None,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Exit after this many events.")] = None,
) -> None:
    """Follow events as they happen. Ctrl-C ends it."""
    seen = 0
    try:
        for change in command.client.watch_events(after):
            ids = [*change.job_ids, *change.run_ids]
            names = ", ".join(ids[:3]) + (f" and {len(ids) - 3} more" if len(ids) > 3 else "")
            command.say(
                f"[dim]{shown(change.at)}[/]  {escape(change.kind.lower()):<10} {escape(names)}",
                id=change.id,
                kind=change.kind,
                at=change.at,
                job_ids=change.job_ids,
                run_ids=change.run_ids,
            )
            seen += 1
            if seen == count:
                return
    except KeyboardInterrupt:
        return
