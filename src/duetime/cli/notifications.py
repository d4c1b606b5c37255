"""`subscriptions` and `alerts`: who is notified of which events, and which figures are watched."""

from typing import Annotated

import typer

from duetime.cli.durations import read_seconds
from duetime.cli.groups import group
from duetime.cli.server_commands import ServerCommand, list_command, server_command
from duetime.errors import InvalidInput
from duetime.wire.notifications import FigureName

subscriptions = group("Notification subscriptions: webhooks, Slack, email.")
alerts = group("Alert rules: no success, missed starts, unusual durations, backlog, lag, dead letters, workers.")

Name = Annotated[str, typer.Argument(metavar="NAME")]
Queue = Annotated[str | None, typer.Option("--queue", "-q", help="Only this queue.")]


@subscriptions.command("list")
@list_command
def list_subscriptions(command: ServerCommand) -> None:
    """List the subscriptions."""
    command.table(
        command.client.list_subscriptions().items,
        "name to topics queues paused",
        "no subscriptions. Create one: duetime subscriptions set NAME TOPIC… --webhook URL",
        to=lambda each: getattr(each.to, "url", None) or getattr(each.to, "address", ""),
        queues=lambda each: each.queues or "all",
    )


@subscriptions.command("set")
@server_command
def set_subscription(
    command: ServerCommand,
    name: Name,
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC…", help="Such as run.dead; '*' for all.")],
    webhook: Annotated[str | None, typer.Option("--webhook", help="A URL that gets signed requests.")] = None,
    slack: Annotated[str | None, typer.Option("--slack", help="A Slack webhook URL.")] = None,
    email: Annotated[str | None, typer.Option("--email", help="An email address.")] = None,
    queue: Annotated[list[str] | None, typer.Option("--queue", "-q", help="Only these queues.")] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", "-t", help="Only jobs with one of these tags.")] = None,
    late_after: Annotated[
        float, typer.Option("--late-after", help="Seconds after which a start counts as late.")
    ] = 60.0,
    paused: Annotated[bool, typer.Option("--paused", help="Send nothing for now.")] = False,
) -> None:
    """Create or replace a subscription."""
    given = {"webhook": webhook, "slack": slack, "email": email}
    ways = {kind: where for kind, where in given.items() if where is not None}
    if len(ways) != 1:
        found = "a subscription has one destination" if ways else "a destination is required"
        raise InvalidInput(found, field="to", remedy="give one of --webhook, --slack and --email")
    ((kind, where),) = ways.items()
    to = {"type": kind, "address" if kind == "email" else "url": where}
    command.show(
        command.client.put_subscription(
            name, to, topics, queues=queue or (), tags=tag or (), late_after=late_after, paused=paused
        )
    )


@subscriptions.command("delete")
@server_command
def delete_subscription(command: ServerCommand, name: Name) -> None:
    """Delete a subscription."""
    command.show(command.client.delete_subscription(name))


@subscriptions.command("test")
@server_command
def test_subscription(command: ServerCommand, name: Name) -> None:
    """Send a test to the destination of a subscription."""
    command.show(command.client.test_subscription(name))


@alerts.command("list")
@list_command
def list_alerts(command: ServerCommand) -> None:
    """List the alert rules and their states."""
    command.table(
        command.client.list_alerts().items,
        "name figure about threshold value state since=changed_at text",
        "no alert rules. Create one: duetime alerts set NAME FIGURE THRESHOLD",
        about=lambda each: each.job_id or each.task or each.tag or each.queue or "all",
        state=lambda each: "open" if each.open else "paused" if each.paused else "",
        text=lambda each: each.text if each.open else None,
    )


@alerts.command("set")
@server_command
def set_alert(
    command: ServerCommand,
    name: Name,
    figure: Annotated[FigureName, typer.Argument(metavar="FIGURE")],
    threshold: Annotated[str, typer.Argument(metavar="THRESHOLD", help="A number, or a duration such as 25h.")],
    until: Annotated[float | None, typer.Option("--until", help="The value at which the alert ends.")] = None,
    for_seconds: Annotated[float, typer.Option("--for", help="Seconds that the threshold must be crossed.")] = 0.0,
    queue: Queue = None,
    job: Annotated[str | None, typer.Option("--job", help="Only this job.", metavar="JOB_ID")] = None,
    task: Annotated[str | None, typer.Option("--task", help="Only this task.")] = None,
    tag: Annotated[str | None, typer.Option("--tag", "-t", help="Only jobs with this tag.")] = None,
    paused: Annotated[bool, typer.Option("--paused", help="Report nothing for now.")] = False,
) -> None:
    """Create or replace an alert rule.

    FIGURE is no_success, not_started or overtime, of a job, a task, a tag or a queue; or dead_letters, lag_p95,
    backlog, workers, free_slots, duration or unserved, of a queue.
    """
    command.show(
        command.client.put_alert(
            name,
            figure,
            _threshold(threshold),
            until=until,
            for_seconds=for_seconds,
            queue=queue,
            job_id=job,
            task=task,
            tag=tag,
            paused=paused,
        )
    )


def _threshold(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return read_seconds(text, "threshold")


@alerts.command("delete")
@server_command
def delete_alert(command: ServerCommand, name: Name) -> None:
    """Delete an alert rule."""
    command.show(command.client.delete_alert(name))
