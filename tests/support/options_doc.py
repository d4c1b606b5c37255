"""docs/options.md, generated from the declarations of the options: `make docs` writes it, and a test compares it."""

from pathlib import Path

from duetime.spec.derived import OF_EDITS, OF_SCHEDULES, OF_SUBMISSIONS, OF_TASKS, OF_TENANTS, OPTIONS, Declared

PAGE = Path(__file__).parents[2] / "docs" / "options.md"

HEAD = """\
<!-- Written by `make docs` from src/duetime/spec/options.py: edit the options there, not here. -->

# Job options

Each option has the same name and the same meaning in Python, in the HTTP API, on the command line and in the dashboard.

- **tenant**: a tenant can have a default for it ([tenants.md](tenants.md#defaults)).
- **task**: `@app.task(…)` accepts it. It is the default for the task's jobs.
- **submit**: a one-off job accepts it.
- **schedule**: a recurring job accepts it.
- **edit**: an edit can change it. *Remove*: an edit can also remove it (`None` in Python, `null` in JSON,
  `--without` on the command line).

An option that the submission gives counts first, then those of `options()`, of the task and of the tenant.

Durations are written as `90s`, `15m`, `1h30m` or `PT15M`; a plain number means seconds. Times are RFC 3339 with an
offset.

"""


def _row(declared: Declared) -> tuple[str, ...]:
    name, option = declared.name, declared.option
    edited = "" if name not in OF_EDITS else "yes, remove" if declared.is_removable else "yes"
    example = "" if option.example is None else f" Example: `{option.example}`."
    return (
        f"`{name}`",
        option.doc + example,
        *("yes" if name in places else "" for places in (OF_TENANTS, OF_TASKS, OF_SUBMISSIONS, OF_SCHEDULES)),
        edited,
        f"`{declared.flag}`",
    )


def render() -> str:
    rows: list[tuple[str, ...]] = [
        ("Option", "What it does", "tenant", "task", "submit", "schedule", "edit", "Flag"),
        ("---",) * 8,
    ]
    rows += [_row(declared) for declared in OPTIONS.values()]
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
