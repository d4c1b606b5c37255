"""The schema of a release: `schema.sql`, `functions/*.sql` and `migrations/*.sql` of a store.

- `schema.sql` creates a new database with the version of this release.
- `migrations/NNNN_name.sql` changes a database from the previous version to NNNN. Migrations are forward only and
  numbered without gaps from 2: 1 is the schema of the first release. A release that changes the schema also changes
  `schema.sql`, and both must lead to the same schema.
- `functions/*.sql` (PostgreSQL) are `create or replace`. They are applied when their text has changed.

A migration whose first line is `-- outside a transaction` runs statement by statement, each ending with a semicolon at
the end of a line. It is for `create index concurrently if not exists` and other repeatable statements: after an
interruption it starts again.
"""

import hashlib
import re
from importlib import resources
from typing import NamedTuple

from duetime.store.shared.sql_text import sql_text

OUTSIDE = "-- outside a transaction"
_MIGRATION = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_STATEMENT_END = re.compile(r";[ \t]*(?:--[^\n]*)?$", re.MULTILINE)


class Migration(NamedTuple):
    version: int
    name: str
    script: str

    @property
    def outside(self) -> bool:
        return self.script.startswith(OUTSIDE)

    @property
    def statements(self) -> list[str]:
        """The statements of a script that runs outside a transaction."""
        return [part.strip() for part in _STATEMENT_END.split(self.script) if _is_code(part)]


class FunctionFile(NamedTuple):
    name: str
    script: str

    @property
    def hash(self) -> str:
        return hashlib.sha256(self.script.encode()).hexdigest()


class Release(NamedTuple):
    schema: str
    functions: tuple[FunctionFile, ...]
    migrations: tuple[Migration, ...]

    @property
    def version(self) -> int:
        return 1 + len(self.migrations)


def load_release(package: str) -> Release:
    folder = resources.files(package)
    schema = sql_text(folder.joinpath("schema.sql").read_text("utf-8"), f"{package}/schema.sql")
    functions = tuple(FunctionFile(name.removesuffix(".sql"), text) for name, text in _scripts(package, "functions"))
    return Release(schema, functions, load_migrations(package))


def load_migrations(package: str) -> tuple[Migration, ...]:
    """Oldest first."""
    found = []
    for name, text in _scripts(package, "migrations"):
        match = _MIGRATION.fullmatch(name)
        if match is None:
            raise ValueError(f"{package}: {name} is not the name of a migration, such as 0002_name.sql")
        found.append(Migration(int(match[1]), match[2], text))
    if [migration.version for migration in found] != list(range(2, len(found) + 2)):
        raise ValueError(f"the migrations of {package} are not numbered from 2 without gaps")
    return tuple(found)


def _scripts(package: str, kind: str) -> list[tuple[str, str]]:
    """The names and texts of the `.sql` files in a folder of a package; none if the folder is missing."""
    folder = resources.files(package).joinpath(kind)
    entries = sorted(folder.iterdir(), key=lambda entry: entry.name) if folder.is_dir() else []
    return [
        (entry.name, sql_text(entry.read_text("utf-8"), f"{package}/{kind}/{entry.name}"))
        for entry in entries
        if entry.name.endswith(".sql")
    ]


def _is_code(text: str) -> bool:
    return any(line.strip() and not line.lstrip().startswith("--") for line in text.splitlines())
