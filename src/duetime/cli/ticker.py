"""Shows runs as they end: each one while they are few, a count when they are many."""

from datetime import UTC, datetime

from rich.markup import escape

from duetime.cli.output import say
from duetime.clock import monotonic
from duetime.ids import show
from duetime.model.attempt import AttemptState, Claimed, Completion

PER_SECOND = 10
_MARKS = {
    AttemptState.SUCCEEDED: "[green]✓[/]",
    AttemptState.FAILED: "[red]✗[/]",
    AttemptState.SNOOZED: "[yellow]…[/]",
    AttemptState.CANCELLED: "[yellow]–[/]",
}


class Ticker:
    def __init__(self, *, json: bool) -> None:
        self._json = json
        self._second = 0
        self._shown = 0
        self._hidden = 0

    def __call__(self, task: str, claimed: Claimed, completion: Completion) -> None:
        second = int(monotonic())
        if second != self._second:
            if self._hidden:
                say(f"  … and {self._hidden:,} more runs", json=self._json, event="runs", more=self._hidden)
            self._second, self._shown, self._hidden = second, 0, 0
        self._shown += 1
        if self._shown > PER_SECOND:
            self._hidden += 1
            return
        # Lag is measured at the first start, so it says nothing about later attempts.
        lag = (claimed.started - claimed.due) / 1000 if claimed.fence == 1 else None
        took = (datetime.now(UTC) - claimed.started_at).total_seconds() * 1000  # noqa: TID251 - shown, never decided on
        mark = _MARKS.get(completion.attempt_state, "?")
        first_line = (completion.error or "").partition("\n")[0]
        reason = f"  [red]{escape(first_line[:90])}[/]" if first_line else ""
        which = f"attempt {claimed.attempt}" if lag is None else f"lag {max(lag, 0):.0f} ms"
        say(
            f"  {mark} {escape(task)}  {show('run', claimed.run_id)}  {which}, took {max(took, 0):.0f} ms{reason}",
            json=self._json,
            event="attempt",
            task=task,
            run_id=show("run", claimed.run_id),
            attempt=claimed.attempt,
            state=completion.attempt_state.name,
            lag_ms=None if lag is None else round(lag, 1),
            took_ms=round(took, 1),
            error=completion.error,
        )
