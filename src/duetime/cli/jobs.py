"""`jobs`: inspect and control jobs."""

from typing import Annotated

import typer

from duetime.cli import completion
from duetime.cli.edit import edit
from duetime.cli.groups import group
from duetime.cli.named_jobs import JobName, job_id_of
from duetime.cli.options import IdempotencyKey
from duetime.cli.run_view import show_why
from duetime.cli.server_commands import ServerCommand, Yes, limited, list_command, server_command

application = group("Inspect and control jobs.")

application.command("edit")(edit)

Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of rows.")]


@application.command("list")
@list_command
def list_jobs(
    command: ServerCommand,
    search: Annotated[
        str | None,
        typer.Argument(metavar="[TEXT]", help="Part of a name, task, tag, owner or key, or the beginning of an id."),
    ] = None,
    status: Annotated[
        str | None,
        typer.Option("--status", help="Such as PENDING, FAILED, ACTIVE.", autocompletion=completion.job_status),
    ] = None,
    task: Annotated[str | None, typer.Option("--task", autocompletion=completion.task)] = None,
    queue: Annotated[str | None, typer.Option("--queue", autocompletion=completion.queue)] = None,
    owner: Annotated[str | None, typer.Option("--owner")] = None,
    name: Annotated[str | None, typer.Option("--name")] = None,
    tag: Annotated[str | None, typer.Option("--tag")] = None,
    order: Annotated[
        str | None,
        typer.Option("--order", help="name or -name: the jobs with a name, by name. Default: newest first."),
    ] = None,
    limit: Limit = 50,
) -> None:
    """List jobs, newest first or by name."""
    found = command.client.jobs(
        search=search,
        status=status,
        task=task,
        queue=queue,
        owner=owner,
        name=name,
        tag=tag,
        order=order,
        page_size=min(limit, 200),
    )
    command.table(
        limited(found, limit),
        "job_id task status next_run schedule name",
        "no jobs match. Create one: duetime submit TASK, or duetime schedule TASK WHEN",
        schedule=lambda job: job.schedule.sentence if job.recurring else "once",
    )
    if command.form == "text":
        command.say_in_streams(command.client.list_jobs(queue=queue, page_size=1).in_streams)


@application.command()
@server_command
def show(command: ServerCommand, job: JobName) -> None:
    """Show one job."""
    command.show(command.client.get_job(job_id_of(command, job)))


@application.command()
@server_command
def status(command: ServerCommand, job: JobName) -> None:
    """Show the state of a job: its last run, its next one, and why it failed."""
    command.show(command.client.get_job_status(job_id_of(command, job)))


@application.command()
@server_command
def why(command: ServerCommand, job: JobName) -> None:
    """Say why a job waits, and what to do about it."""
    show_why(command, command.client.explain_job(job_id_of(command, job)))


@application.command()
@server_command
def cancel(command: ServerCommand, job: JobName) -> None:
    """Cancel a job; a running run is asked to stop."""
    command.show(command.client.cancel_job(job_id_of(command, job)))


@application.command()
@server_command
def pause(command: ServerCommand, job: JobName) -> None:
    """Pause a job until it is resumed."""
    command.show(command.client.pause_job(job_id_of(command, job)))


@application.command()
@server_command
def resume(command: ServerCommand, job: JobName) -> None:
    """Resume a job. Its misfire policy decides about missed occurrences."""
    command.show(command.client.resume_job(job_id_of(command, job)))


@application.command()
@server_command
def trigger(command: ServerCommand, job: JobName, idempotency_key: IdempotencyKey = None) -> None:
    """Start an extra run now."""
    command.show(command.client.trigger_job(job_id_of(command, job), idempotency_key=idempotency_key))


@application.command()
@server_command
def backfill(
    command: ServerCommand,
    job: JobName,
    start: Annotated[str, typer.Argument(help="Start of the range (RFC 3339).")],
    end: Annotated[str, typer.Argument(help="End of the range (RFC 3339).")],
    limit: Annotated[int | None, typer.Option("--limit", help="Refuse if the range has more runs than this.")] = None,
    rate: Annotated[float | None, typer.Option("--rate", help="Runs per second.")] = None,
    idempotency_key: IdempotencyKey = None,
) -> None:
    """Create the runs of a past range."""
    job_id, key = job_id_of(command, job), idempotency_key
    command.show(command.client.backfill_job(job_id, start, end, limit=limit, rate=rate, idempotency_key=key))


@application.command()
@server_command
def delete(command: ServerCommand, job: JobName, yes: Yes = False) -> None:
    """Delete a job; its history stays until its retention ends."""
    job_id = job_id_of(command, job)
    if command.must_confirm(yes=yes):
        found = command.client.get_job(job_id)
        command.confirm(f"Delete {job_id} ({' '.join(filter(None, (found.task, found.name)))})?")
    command.show(command.client.delete_job(job_id))
