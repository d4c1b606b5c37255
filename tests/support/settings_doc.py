"""docs/settings.md, made from the settings themselves: `make docs` writes it, a test keeps it in step."""

from pathlib import Path

from duetime.settings import describe

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"

HEAD = """\
<!-- Written by `make docs` from src/duetime/settings.py: edit the settings there, not here. -->

# Settings

A setting has a default. A TOML file may change it, a `DUETIME_*` variable is stronger than the file, and
a flag is stronger than the variable.

- The file is `./duetime.toml` when it is there, or the one that `DUETIME_CONFIG` names, or the one given on
  the command line. A file that is named has to exist.
- A variable that is empty counts as not set.
- A relative path starts from the working directory, whichever source it comes from.
- A name that is not in the table is refused, and so is a value that is out of bounds: the message names the
  file, the variable or the flag to mend. What Kubernetes tells a pod about Services (`DUETIME_SERVER_SERVICE_HOST`,
  where one is called duetime-server) is not meant for duetime, and passed over.

```toml
# duetime.toml
database_url = "postgresql://duetime@db.internal/duetime"
slots = 500
lease = "30s"
max_payload = "1MiB"
```

Durations read `90s`, `15m`, `1h30m`, `500ms`, `30d` or `PT15M`; a plain number counts seconds. Sizes read
`256KiB` or `1MiB`; a plain number counts bytes.

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
