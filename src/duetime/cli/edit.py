"""`jobs edit`: what shall be different about a job."""

from typing import Annotated, Any, Unpack

import typer

from duetime.cli.job_options import Args, Arguments, read_arguments
from duetime.cli.server_commands import Talk, talks
from duetime.errors import InvalidInput
from duetime.spec.derived import OF_EDITS
from duetime.spec.options import EditOptions
from duetime.spec.resolved import TIMES

_REMOVABLE = {each.flag.removeprefix("--"): each.name for each in OF_EDITS.values() if each.is_removable}
_NOTHING: dict[str, Any] = {
    **dict.fromkeys(flag for flag, name in _REMOVABLE.items() if name not in TIMES),
    "tags": [],
    "args": {},
}
"""What can be taken away, and what is left then."""


@talks
def edit(
    talk: Talk,
    job: Annotated[str, typer.Argument(metavar="JOB", help="Its id: job_…")],
    arguments: Arguments = None,
    args: Args = None,
    without: Annotated[
        list[str] | None, typer.Option("--without", help=f"Take away: {', '.join(_NOTHING)}; may be repeated.")
    ] = None,
    version: Annotated[
        int | None, typer.Option("--version", help="Only if this is its version still, as `jobs show` says it.")
    ] = None,
    **options: Unpack[EditOptions],
) -> None:
    """Change a job: what is named becomes different, the rest stays. Arguments are replaced as a whole."""
    replaced = read_arguments(arguments, args)
    changes: dict[str, Any] = {**options, **({} if replaced is None else {"args": replaced}), **_taken_away(without)}
    if not changes:
        raise InvalidInput("nothing would become different", field="jobs edit", remedy="see duetime jobs edit --help")
    talk.show(talk.client.change_job(job, version=version, **changes))


def _taken_away(names: list[str] | None) -> dict[str, Any]:
    for name in names or ():
        if name not in _NOTHING:
            raise InvalidInput(f"{name!r} cannot be taken away", field="without", remedy=", ".join(_NOTHING))
    return {_REMOVABLE.get(name, name): _NOTHING[name] for name in names or ()}
