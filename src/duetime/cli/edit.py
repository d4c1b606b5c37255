"""`jobs edit`: changes a job."""

from typing import Annotated, Any, Unpack

import typer

from duetime.cli.job_options import Args, Arguments, arguments_as_given, read_arguments
from duetime.cli.named_jobs import JobName, job_id_of
from duetime.cli.server_commands import ServerCommand, server_command
from duetime.errors import InvalidInput
from duetime.spec.derived import OF_EDITS
from duetime.spec.options import EditOptions

_REMOVABLE = {each.flag.removeprefix("--"): each.name for each in OF_EDITS.values() if each.is_removable}
_NOTHING: dict[str, Any] = {
    **dict.fromkeys(_REMOVABLE),
    "tags": [],
    "args": {},
}
"""What `--without` can remove, and the value that is left."""


@server_command
def edit(
    command: ServerCommand,
    job: JobName,
    arguments: Arguments = None,
    args: Args = None,
    without: Annotated[
        list[str] | None, typer.Option("--without", help=f"Remove: {', '.join(_NOTHING)}. May be repeated.")
    ] = None,
    version: Annotated[
        int | None, typer.Option("--version", help="Fail unless this is the current version, as in `jobs show`.")
    ] = None,
    **options: Unpack[EditOptions],
) -> None:
    """Change a job. Options that are not given stay unchanged: with a new time, the schedule keeps its time zone, its
    bounds and its excluded days. Arguments are replaced as a whole."""
    replaced = read_arguments(arguments, args)
    changes: dict[str, Any] = {**options, **({} if replaced is None else {"args": replaced}), **_removed(without)}
    if not changes:
        raise InvalidInput("no change was given", field="jobs edit", remedy="see duetime jobs edit --help")
    job_id = job_id_of(command, job)
    with arguments_as_given(arguments):
        changed = command.client.change_job(job_id, version=version, **changes)
    command.show(changed)


def _removed(names: list[str] | None) -> dict[str, Any]:
    for name in names or ():
        if name not in _NOTHING:
            raise InvalidInput(f"{name!r} cannot be removed", field="without", remedy=", ".join(_NOTHING))
    return {_REMOVABLE.get(name, name): _NOTHING[name] for name in names or ()}
