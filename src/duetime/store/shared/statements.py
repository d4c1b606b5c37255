"""Named SQL statements.

A `.sql` file holds statements, each under a line `-- name: what it does`. A statement starts at its name and ends at
the next one. Statements that both dialects share are in `shared/sql`, in PostgreSQL's dialect; `sqlite/dialect.py`
translates them for SQLite. If that is not enough, each dialect has a version in its own `sql` folder, under the same
name; a test asserts it.
A statement names states as the code does, `RunState.SUCCEEDED`, and a file may hold templates: see `sql_text.py`. Only
the statements of re-encryption are in no file: `reencryption_statements.py` derives them from the encrypted columns.
"""

import re
from importlib import resources
from types import MappingProxyType

from duetime.store.rules.encrypted_columns import SEALED_TABLES
from duetime.store.shared.reencryption_statements import reencryption_statements
from duetime.store.shared.sql_text import sql_text

SHARED = "duetime.store.shared"
_HEADING = re.compile(r"^-- ([a-z_]+): (.+)$", re.MULTILINE)
_PARAMETER = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|/\*.*?\*/|::|:([a-z_][a-z0-9_]*)", re.DOTALL)


def statements(package: str) -> MappingProxyType[str, str]:
    """All named statements in the `sql` folder of a package."""
    found: dict[str, str] = {}
    for entry in sorted(resources.files(package).joinpath("sql").iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".sql"):
            for name, body in parse(sql_text(entry.read_text("utf-8"), f"{package}/sql/{entry.name}")):
                if name in found:
                    raise ValueError(f"{package} has two statements {name!r}")
                found[name] = body
    return MappingProxyType(found)


def shared_statements() -> MappingProxyType[str, str]:
    """All statements that both dialects share."""
    return MappingProxyType({**statements(SHARED), **dict(reencryption_statements(SEALED_TABLES))})


def parse(text: str) -> list[tuple[str, str]]:
    headings = list(_HEADING.finditer(text))
    ends = [heading.start() for heading in headings[1:]] + [len(text)]
    return [
        (heading[1], text[heading.end() : end].strip().rstrip(";")) for heading, end in zip(headings, ends, strict=True)
    ]


def numbered(text: str) -> tuple[str, tuple[str, ...]]:
    """A statement with `$1` in place of its first named parameter, and so on; and their names in this order."""
    names: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        return match[0] if match[1] is None else f"${names.setdefault(match[1], len(names) + 1)}"

    return _PARAMETER.sub(number, text), tuple(names)
