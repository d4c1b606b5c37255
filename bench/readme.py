"""The table of figures in README.md, from the results: generated between two comments."""

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

README = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- figures: written by make bench-docs -->", "<!-- end of figures -->"
HEADS = ("", "duetime", "plain-SQL loop", "best Python peer", "× peer", "× best that keeps jobs", "× graphile-worker")


class Row(NamedTuple):
    """`label` may name what a result notes: its slots."""

    label: str
    scenario: str
    variant: str
    store: str = "postgres"
    beside_sql: bool = True
    """Whether its limit is a loop of SQL: the limit of HTTP is the raw framework, which only the page shows."""


ROWS = (
    Row("drain, PostgreSQL, a worker of {slots:,} slots", "drain", "async"),
    Row("drain, PostgreSQL, a worker of 1,000 slots", "drain", "async, 1,000 slots"),
    Row("drain, SQLite, a worker of {slots:,} slots", "drain", "async", "sqlite"),
    Row("drain, PostgreSQL, tasks in threads", "drain", "thread"),
    Row("drain, PostgreSQL, tasks in separate processes", "drain", "process"),
    Row("submitting and running at the same time, p95 lag under 1 s", "steady", "highest rate"),
    Row("jobs submitted one at a time, each committed", "submit", "single"),
    Row("jobs submitted 1,000 at a time", "submit", "bulk"),
    Row("jobs created over HTTP, one per request", "submit", "http single", beside_sql=False),
    Row("jobs created over HTTP, 5,000 per request", "submit", "http bulk", beside_sql=False),
    Row("from submission to start on an idle worker, median", "latency", "across processes p50"),
    Row("delay after due time, p95 at 1,000 runs a second", "precision", "p95"),
    Row("delay after due time, p95 at 100 runs a second", "precision", "100 a second p95"),
    Row("recurring jobs fired by one node", "fire", "recurring"),
    Row("next fires of 100,000 due jobs with 1,000 cron lines", "next_fire", "one instant", "none"),
    Row("the same, each due at its own instant", "next_fire", "as many instants", "none"),
    Row("20 remote workers over HTTP, at full speed", "remote", "20 flat out"),
    Row("2,000 connected remote workers, 200 busy: time to hand out a run, p95", "remote", "2,000 connected: p95"),
    Row("CPU of the server in that test", "remote", "2,000 connected: CPU"),
    Row("memory of the server in that test", "remote", "2,000 connected: memory"),
)


def with_figures(text: str, results: Path) -> str:
    """The same text with the figures of these results."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"README.md has no place for figures: {BEGIN} … {END}")
    return f"{before}{BEGIN}\n\n{figures(results)}\n\n{END}{after}"


def figures(results: Path) -> str:
    bodies = {
        name: json.loads(file.read_text())
        for name in dict.fromkeys(row.scenario for row in ROWS)
        if (file := results / f"{name}.json").exists()
    }
    lines = [f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|"]
    lines += [
        _line(row, bodies[row.scenario])
        for row in ROWS
        if row.variant in bodies.get(row.scenario, {"ours": {}})["ours"].get(row.store, {})
    ]
    moments = sorted(body["measured_at"] for body in bodies.values()) or ["never"]
    told = [
        "A ratio is above 1 where duetime is better. Peers on Redis keep jobs only in its memory, apscheduler-memory",
        f"in the process that runs them. Measured from {moments[0][:10]} to {moments[-1][:10]}.",
    ]
    machines = {body["machine"]["architecture"] for body in bodies.values()}
    if len(machines) > 1:
        told += [
            f"The rows come from {len(machines)} machines ({', '.join(sorted(machines))}): compare within a row,",
            "and ratios between rows. docs/performance.md names the machine of each scenario.",
        ]
    return "\n".join([*lines, "", *told])


def _line(row: Row, body: dict[str, Any]) -> str:
    def of(what: str) -> Any:
        return body.get(what, {}).get(row.store, {}).get(row.variant)

    best = of("best_peer")
    cells = [
        row.label.format_map(body["notes"]),
        f"{_rounded(of('ours'))} {of('unit')}",
        _rounded(of("limit")) if row.beside_sql else "–",
        "–" if best is None else f"{best} {_rounded(of('peers')[best])}",
        *(_ratio(of(f"ratio_to_{which}")) for which in ("best_peer", "best_keeping_peer", "graphile")),
    ]
    return f"| {' | '.join(cells)} |"


def _ratio(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.2f}"


def _rounded(figure: float | None) -> str:
    """To three digits: the next one differs from run to run."""
    if figure is None:
        return "–"
    digits = 2 - math.floor(math.log10(abs(figure))) if figure else 0
    return f"{round(figure, digits):,.{max(0, digits)}f}"
