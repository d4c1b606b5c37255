"""`subscriptions` and `alerts`: what is told to whom, and which figures are watched."""

from typing import Annotated

import typer

from duetime.cli.groups import group
from duetime.cli.server_commands import Talk, shown, talks
from duetime.errors import InvalidInput
from duetime.wire.notifications import FigureName

subscriptions = group("Say what is told to whom: webhooks, Slack, mail.")
alerts = group("Watch figures: backlog, lag, dead letters, workers.")

Name = Annotated[str, typer.Argument(metavar="NAME")]
Queue = Annotated[str | None, typer.Option("--queue", "-q", help="Only this queue.")]


@subscriptions.command("list")
@talks
def list_subscriptions(talk: Talk) -> None:
    """List what is told to whom."""
    columns = {
        "name": lambda each: each.name,
        "to": lambda each: getattr(each.to, "url", None) or getattr(each.to, "address", ""),
        "topics": lambda each: each.topics,
        "queues": lambda each: each.queues or "all",
        "paused": lambda each: each.paused,
    }
    talk.table(talk.client.list_subscriptions().items, columns)


@subscriptions.command("set")
@talks
def set_subscription(
    talk: Talk,
    name: Name,
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC…", help="Such as run.dead; '*' for all.")],
    webhook: Annotated[str | None, typer.Option("--webhook", help="A URL that gets signed requests.")] = None,
    slack: Annotated[str | None, typer.Option("--slack", help="A URL that takes Slack's JSON.")] = None,
    email: Annotated[str | None, typer.Option("--email", help="A mail address.")] = None,
    queue: Annotated[list[str] | None, typer.Option("--queue", "-q", help="Only these queues.")] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", "-t", help="Only jobs with one of these tags.")] = None,
    late_after: Annotated[float, typer.Option("--late-after", help="Seconds from which a start is late.")] = 60.0,
    paused: Annotated[bool, typer.Option("--paused", help="Tell nothing for now.")] = False,
) -> None:
    """Say what is told to whom from now on."""
    given = {"webhook": webhook, "slack": slack, "email": email}
    ways = {kind: where for kind, where in given.items() if where is not None}
    if len(ways) != 1:
        raise InvalidInput("say where to", field="to", remedy="give one of --webhook, --slack and --email")
    ((kind, where),) = ways.items()
    to = {"type": kind, "address" if kind == "email" else "url": where}
    talk.show(
        talk.client.put_subscription(
            name, to, topics, queues=queue or (), tags=tag or (), late_after=late_after, paused=paused
        )
    )


@subscriptions.command("delete")
@talks
def delete_subscription(talk: Talk, name: Name) -> None:
    """Tell it no more."""
    talk.show(talk.client.delete_subscription(name))


@alerts.command("list")
@talks
def list_alerts(talk: Talk) -> None:
    """List the rules, and how they stand."""
    columns = {
        "name": lambda each: each.name,
        "figure": lambda each: each.figure,
        "queue": lambda each: each.queue or "all",
        "threshold": lambda each: f"{each.threshold:g}",
        "value": lambda each: "" if each.value is None else f"{each.value:g}",
        "state": lambda each: "open" if each.open else "",
        "since": lambda each: shown(each.changed_at),
    }
    talk.table(talk.client.list_alerts().items, columns)


@alerts.command("set")
@talks
def set_alert(
    talk: Talk,
    name: Name,
    figure: Annotated[FigureName, typer.Argument(metavar="FIGURE")],
    threshold: Annotated[float, typer.Argument(metavar="THRESHOLD")],
    until: Annotated[float | None, typer.Option("--until", help="Where it is right again.")] = None,
    for_seconds: Annotated[float, typer.Option("--for", help="Seconds for which it must be wrong.")] = 0.0,
    queue: Queue = None,
) -> None:
    """Watch a figure: dead_letters, lag_p95, backlog, workers, free_slots, duration or unserved."""
    talk.show(talk.client.put_alert(name, figure, threshold, until=until, for_seconds=for_seconds, queue=queue))


@alerts.command("delete")
@talks
def delete_alert(talk: Talk, name: Name) -> None:
    """Watch it no more."""
    talk.show(talk.client.delete_alert(name))
