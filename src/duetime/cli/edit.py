"""`jobs edit`: what shall be different about a job."""

from typing import Annotated, Any

import typer

from duetime.cli.job_options import (
    Args,
    Arguments,
    Concurrency,
    ConcurrencyKey,
    DayMatch,
    EndAt,
    Jitter,
    JobName,
    MaxRuns,
    MisfireMode,
    NotOn,
    Overlap,
    Owner,
    Priority,
    Queue,
    Rate,
    RateKey,
    Retries,
    RunAt,
    RunIn,
    StartAt,
    Tags,
    Timeout,
    WarnAfter,
    Zone,
    read_arguments,
    read_days,
)
from duetime.cli.talking import Talk, talks
from duetime.errors import InvalidInput

_NOTHING: dict[str, Any] = {
    **dict.fromkeys(("name", "timeout", "max-runs", "owner", "payload", "concurrency-key", "rate", "warn-after")),
    "tags": [],
    "args": {},
}
"""What can be taken away, and what is left then."""
_FIELDS = {"payload": "payload_ref"}


@talks
def edit(
    talk: Talk,
    job: Annotated[str, typer.Argument(metavar="JOB", help="Its id: job_…")],
    arguments: Arguments = None,
    args: Args = None,
    when: Annotated[
        str | None,
        typer.Option("--when", help="Another schedule, whole: a cron line or rule, an interval, or words."),
    ] = None,
    run_at: RunAt = None,
    run_in: RunIn = None,
    tz: Zone = None,
    day_match: DayMatch = None,
    start_at: StartAt = None,
    end_at: EndAt = None,
    not_on: NotOn = None,
    queue: Queue = None,
    priority: Priority = None,
    retries: Retries = None,
    timeout: Timeout = None,
    name: JobName = None,
    owner: Owner = None,
    tag: Tags = None,
    payload: Annotated[str | None, typer.Option("--payload", help="What it refers to: pay_…, or any text.")] = None,
    misfire: MisfireMode = None,
    overlap: Overlap = None,
    jitter: Jitter = None,
    max_runs: MaxRuns = None,
    concurrency_key: ConcurrencyKey = None,
    concurrency: Concurrency = None,
    rate_key: RateKey = None,
    rate: Rate = None,
    warn_after: WarnAfter = None,
    without: Annotated[
        list[str] | None, typer.Option("--without", help=f"Take away: {', '.join(_NOTHING)}; may be repeated.")
    ] = None,
    version: Annotated[
        int | None, typer.Option("--version", help="Only if this is its version still, as `jobs show` says it.")
    ] = None,
) -> None:
    """Change a job: what is named becomes different, the rest stays. Arguments are replaced as a whole."""
    given = {
        "args": read_arguments(arguments, args),
        "when": when,
        "run_at": run_at,
        "run_in": run_in,
        "tz": tz,
        "day_match": day_match,
        "start_at": start_at,
        "end_at": end_at,
        "exclude": read_days(not_on),
        "queue": queue,
        "priority": priority,
        "retries": retries,
        "timeout": timeout,
        "name": name,
        "owner": owner,
        "tags": tag,
        "payload_ref": payload,
        "misfire": misfire,
        "overlap": overlap,
        "jitter": jitter,
        "max_runs": max_runs,
        "concurrency_key": concurrency_key,
        "concurrency": concurrency,
        "rate_key": rate_key,
        "rate": rate,
        "warn_after": warn_after,
    }
    changes = {name: value for name, value in given.items() if value is not None} | _taken_away(without)
    if not changes:
        raise InvalidInput("nothing would become different", field="jobs edit", remedy="see duetime jobs edit --help")
    talk.show(talk.client.change_job(job, version=version, **changes))


def _taken_away(names: list[str] | None) -> dict[str, Any]:
    for name in names or ():
        if name not in _NOTHING:
            raise InvalidInput(f"{name!r} cannot be taken away", field="without", remedy=", ".join(_NOTHING))
    return {_FIELDS.get(name, name.replace("-", "_")): _NOTHING[name] for name in names or ()}
