"""docs/options.md, made from the declarations of the options: `make docs` writes it, a test keeps it in step."""

from pathlib import Path

from duetime.spec.derived import OF_EDITS, OF_SCHEDULES, OF_SUBMISSIONS, OF_TASKS, OPTIONS, Declared

PAGE = Path(__file__).parents[2] / "docs" / "options.md"

HEAD = """\
<!-- Written by `make docs` from src/duetime/spec/options.py: edit the options there, not here. -->

# Options of a job

Each option has the same name and the same meaning in Python, in the HTTP API, on the command line and in the dashboard.

- **task**: `@app.task(…)` may give it. The task's jobs get it unless they are given another value.
- **submit**: a job that runs once may have it.
- **schedule**: a job that repeats may have it.
- **edit**: an edit may change it. *Remove* says that an edit may also remove it (`None` in Python, `null` in JSON,
  `--without` on the command line).

Durations read `90s`, `15m`, `1h30m` or `PT15M`; a plain number counts seconds. Moments are RFC 3339 with an offset.

"""


def _row(declared: Declared) -> tuple[str, ...]:
    name, option = declared.name, declared.option
    edited = "" if name not in OF_EDITS else "yes, remove" if declared.is_removable else "yes"
    example = "" if option.example is None else f" Example: `{option.example}`."
    return (
        f"`{name}`",
        option.doc + example,
        *("yes" if name in places else "" for places in (OF_TASKS, OF_SUBMISSIONS, OF_SCHEDULES)),
        edited,
        f"`{declared.flag}`",
    )


def render() -> str:
    rows: list[tuple[str, ...]] = [
        ("Option", "What it does", "task", "submit", "schedule", "edit", "Flag"),
        ("---",) * 7,
    ]
    rows += [_row(declared) for declared in OPTIONS.values()]
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
