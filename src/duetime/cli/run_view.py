"""A run for people: its facts, its attempts on a timeline, and what each attempt logged and raised."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from rich.markup import escape

from duetime.cli.output import out
from duetime.cli.server_commands import ServerCommand
from duetime.cli.tables import columns_of, print_list, print_pairs, seconds, shown, state
from duetime.text.visible import visible, visible_lines
from duetime.wire.runs import AttemptView, RunView, WhyView

_LINE = 30
"""Characters of the timeline."""
_LEVELS = {"WARNING": "yellow", "ERROR": "red", "CRITICAL": "red", "DEBUG": "dim"}


def show_run(run: RunView, why: WhyView | None = None) -> None:
    out.print(heading(run), soft_wrap=True)
    print_pairs(_facts(run))
    if why is not None and why.reasons:
        out.print()
        print_why(why)
    if run.attempts:
        out.print()
        print_list(
            run.attempts,
            columns_of("attempt status after_due took timeline worker=worker_id failure", _columns(run)),
            empty="",
        )
    for attempt in run.attempts:
        if attempt.logs or attempt.error:
            out.print(f"\n[bold]attempt {attempt.attempt}[/]  {state(attempt.status)}")
            print_log(attempt.logs)
            print_error(attempt.error)
    if run.logs:
        out.print("\n[bold]current attempt[/]")
        print_log(run.logs)
    if run.error and not run.attempts:
        print_error(run.error)


def heading(run: RunView) -> str:
    return f"[bold]{escape(run.run_id)}[/]  {escape(run.task or '')}  {state(run.status)}"


def show_why(command: ServerCommand, why: WhyView) -> None:
    if command.json:
        command.show(why)
    elif why.reasons:
        print_why(why)
    else:
        command.say("it does not wait")


def print_why(why: WhyView) -> None:
    """The reasons in words, the one that holds it now first."""
    for each in why.reasons:
        out.print(f"[yellow]{escape(visible(each.text))}[/]", soft_wrap=True)
        for line in (each.fix, _ids("runs", each.runs), _ids("jobs", each.jobs)):
            if line:
                out.print(f"  [dim]{escape(visible(line))}[/]", soft_wrap=True)


def _ids(word: str, ids: Sequence[str]) -> str:
    return f"{word}: {' '.join(ids)}" if ids else ""


def print_log(lines: Iterable[dict[str, Any]]) -> None:
    for line in lines:
        level = str(line.get("level", ""))
        colour = _LEVELS.get(level, "none")
        text = escape(visible_lines(str(line.get("text", "")), indent="    "))
        out.print(f"  [dim]{escape(_clock(line.get('at')))}[/] [{colour}]{escape(level):<7}[/] {text}", soft_wrap=True)


def print_error(error: str | None) -> None:
    if error:
        first, _, rest = error.partition("\n")
        out.print(f"  [red]{escape(visible(first))}[/]", soft_wrap=True)
        if rest:
            out.print(f"  [dim]{escape(visible_lines(rest.rstrip(), indent='  '))}[/]", soft_wrap=True)


def _facts(run: RunView) -> dict[str, object]:
    """What is known of it; empty values are not shown."""
    late = "" if run.lag is None else f", started {seconds(max(run.lag, 0.0))} later"
    progress = "" if run.progress is None else f"{run.progress:.0%}"
    return {
        "job": run.job_id,
        "queue": " ".join(filter(None, (run.queue, run.priority))),
        "due": f"{shown(run.due_at)}{late}",
        "ready": None if run.started_at or run.ready_at == run.due_at else run.ready_at,
        "finished": run.finished_at,
        "attempts": f"{run.attempt}{f', and {run.lost} lost their worker' if run.lost else ''}",
        "progress": " ".join(filter(None, (progress, run.message))),
        "args": run.args_problem or run.args,
        "result": run.result,
        "failure": run.failure,
        "replays": run.replays,
        "archived": run.archived or None,
        "certain": None if run.certain else "no: the run may be in the stream of its queue",
        "what to do": _remedy(run),
    }


def _remedy(run: RunView) -> str | None:
    return f"duetime runs retry {run.run_id}" if run.status == "FAILED" else None


def _columns(run: RunView) -> dict[str, Any]:
    begin, end = _bounds(run.due_at, run.attempts)
    return {
        "after_due": lambda each: None if each.started_at is None else _since(run.due_at, each.started_at),
        "took": lambda each: None if each.duration is None else seconds(each.duration),
        "timeline": lambda each: _bar(each, begin, end),
    }


def _bounds(due: datetime, attempts: Sequence[AttemptView]) -> tuple[datetime, datetime]:
    starts = [each.started_at for each in attempts if each.started_at is not None]
    return min([due, *starts]), max(each.finished_at for each in attempts)


def _since(due: datetime, moment: datetime) -> str:
    return f"+{seconds(max((moment - due).total_seconds(), 0.0))}"


def _bar(attempt: AttemptView, begin: datetime, end: datetime) -> str:
    """The attempt between the due time and the end of the last attempt; at least one character."""
    whole = max((end - begin).total_seconds(), 1e-6)
    started = attempt.started_at or attempt.finished_at
    first = min(int((started - begin).total_seconds() / whole * _LINE), _LINE - 1)
    last = max(first + 1, round((attempt.finished_at - begin).total_seconds() / whole * _LINE))
    return "·" * first + "█" * (last - first) + "·" * (_LINE - last)


def _clock(at: object) -> str:
    try:
        moment = datetime.fromisoformat(str(at))
    except ValueError:
        return str(at)
    return moment.astimezone().strftime("%H:%M:%S.") + f"{moment.microsecond // 1000:03}"
