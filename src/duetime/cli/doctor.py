"""`doctor`: checks an installation, and says what to do about each finding. For people, containers and CI."""

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from duetime import errors
from duetime.cli.app_loader import load_app
from duetime.cli.options import MaybeAppName
from duetime.cli.output import code_of, out, print_json
from duetime.cli.settings_commands import DATABASE, settings_command
from duetime.cli.tables import print_pairs
from duetime.duration import format_duration
from duetime.settings import Settings

if TYPE_CHECKING:
    from duetime.node.diagnosis import Finding

_MARKS = {"ok": "[green]✓[/]", "warning": "[yellow]![/]", "problem": "[red]✗[/]"}
_WIDTH = 12


@settings_command(DATABASE)
def doctor(
    settings: Settings,
    app: MaybeAppName = None,
    show_settings: Annotated[bool, typer.Option("--settings", help="Show every setting and its value.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 for warnings too.")] = False,
    restored: Annotated[
        bool, typer.Option("--restored", help="Check a restored copy, which no server or worker uses.")
    ] = False,
    *,
    json: bool,
) -> None:
    """Check settings, database, clock, pooler, schema, workers, tasks, encryption and brokers, and the app if you name
    one. Says what to do about each problem. Changes nothing.

    Exits with 0 if there is no problem; with 3 if the database cannot be used, with 4 if its schema does not fit, and
    with 1 for other problems.
    """
    if app is not None:
        _print_finding(
            _found("app", f"{app} has the tasks {', '.join(sorted(load_app(app, settings).tasks))}"), json=json
        )
    codes = asyncio.run(_check(settings, json=json, strict=strict, restored=restored))
    if show_settings:
        values = {name: _shown(value) for name, value in settings.__rich_repr__()}
        if json:
            print_json({"check": "settings", "status": "ok", "values": values})
        else:
            print_pairs(values)
    if any(codes):
        raise typer.Exit(max(codes))


async def _check(settings: Settings, *, json: bool, strict: bool, restored: bool) -> list[int]:
    """Print the findings as they are made; returns their exit codes."""
    from duetime.node.diagnosis import diagnose

    codes = [0]
    async for finding in diagnose(settings, restored=restored):
        _print_finding(finding, json=json)
        if finding.status == "problem":
            kind = getattr(errors, finding.error or "", errors.DuetimeError)
            codes.append(code_of(kind))
        elif finding.status == "warning" and strict:
            codes.append(1)
    return codes


def _print_finding(finding: "Finding", *, json: bool) -> None:
    if json:
        print_json(finding)
        return
    out.print(f"{_MARKS[finding.status]} {finding.check:<{_WIDTH}} {escape(finding.found)}", soft_wrap=True)
    if finding.remedy is not None:
        out.print(f"  {'':<{_WIDTH}} [bold]→[/] {escape(finding.remedy)}", soft_wrap=True)


def _found(check: str, text: str) -> "Finding":
    from duetime.node.diagnosis import Finding

    return Finding(check, "ok", text)


def _shown(value: Any) -> Any:
    """A value as it is written in settings, and as JSON can represent it."""
    match value:
        case None | int() | float():
            return value
        case timedelta():
            return format_duration(value)
        case list() | tuple():
            return ", ".join(value)
        case _:
            return str(value)
