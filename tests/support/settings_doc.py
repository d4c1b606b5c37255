"""docs/settings.md, generated from the settings: `make docs` writes it, and a test compares it."""

from pathlib import Path

from duetime.settings import describe

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"

HEAD = """\
<!-- Written by `make docs` from src/duetime/settings/__init__.py: edit the settings there, not here. -->

# Settings

Every setting has a default. A TOML file overrides the default, a `DUETIME_*` variable overrides the file, and what you
write overrides the variable: the flag of a command, or an argument of `App`, `Client` and `AsyncClient`.

- The file is `./duetime.toml` if it exists, or the file that `DUETIME_CONFIG` or the command line names. A named
  file must exist.
- An empty variable counts as not set.
- `url` names a server, which apps, clients, commands and remote workers use instead of a database. A source that names
  `database_url` or `data_dir`, and no `url`, replaces the `url` and the `key` of weaker sources: with `DUETIME_URL`
  set, `--database-url` and `App(database_url=…)` still use that database.
- A relative path starts from the working directory, whichever source it comes from.
- An unknown name or a value out of bounds is refused; the error names the file, the variable or the flag.
  duetime ignores the variables that Kubernetes sets for a Service (`DUETIME_SERVER_SERVICE_HOST`, for one named
  duetime-server).

```toml
# duetime.toml
database_url = "postgresql://duetime@db.internal/duetime"
slots = 500
lease = "30s"
max_payload = "1MiB"
```

Durations are written as `90s`, `15m`, `1h30m`, `500ms`, `30d` or `PT15M`; a plain number means seconds. Sizes are
written as `256KiB` or `1MiB`; a plain number means bytes.

"""


def render() -> str:
    rows = [("Setting", "Variable", "Default", "What it does", "Accepted"), ("---",) * 5]
    rows += [
        (f"`{each.name}`", f"`{each.variable}`", each.default, each.description, each.accepts) for each in describe()
    ]
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(render(), encoding="utf-8")
