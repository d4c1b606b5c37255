"""Jobs and runs as commands name them: a job by its id or by its key, a run by its id. An id of another kind is
answered with the command that takes it."""

from typing import TYPE_CHECKING, Annotated

import typer

from duetime.cli import completion
from duetime.errors import InvalidInput, NotFound
from duetime.ids import Kind, parse

if TYPE_CHECKING:
    from duetime.cli.server_commands import ServerCommand

JobName = Annotated[
    str, typer.Argument(metavar="JOB", help="The job's id, job_…, or its key.", autocompletion=completion.job)
]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id: run_…", autocompletion=completion.run)]

_KINDS: dict[Kind, tuple[str, str]] = {
    "job": ("a job", "duetime jobs show {0} shows it, and duetime runs list --job {0} its runs"),
    "run": ("a run", "duetime runs show {0} shows it, with the id of its job"),
    "gra": ("a graph", "duetime graphs show {0} shows it, with the ids of its jobs"),
}
"""What the ids are ids of, and what to run with them."""


def job_id_of(command: "ServerCommand", given: str) -> str:
    """The id of the job with this id or key. A key may have had several jobs: all but the newest have ended."""
    if _is(given, "job"):
        return given
    _refuse_other(given, "job")
    for job in command.client.list_jobs(key=given, page_size=1).items:
        return job.job_id
    raise NotFound(f"there is no job with the id or key {given}", remedy=f"search for it: duetime jobs list {given}")


def run_id_of(given: str) -> str:
    _refuse_other(given, "run")
    return given


def _refuse_other(given: str, wanted: Kind) -> None:
    for kind, (name, remedy) in _KINDS.items():
        if kind != wanted and _is(given, kind):
            raise InvalidInput(f"{given} is the id of {name}", field=wanted, remedy=remedy.format(given))


def _is(given: str, kind: Kind) -> bool:
    try:
        parse(kind, given)
    except InvalidInput:
        return False
    return True
