"""The next release of a store's schema, made up by a test."""

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from uuid import uuid4

import pytest

from duetime.store.shared.release import Release, load_migrations


def put_next_release(
    schema: ModuleType,
    patch: pytest.MonkeyPatch,
    folder: Path,
    migrations: Mapping[str, str] | None = None,
    functions: Mapping[str, tuple[str, str]] | None = None,
) -> Release:
    """Let the module `schema` of a store bring these migrations, by the names of their files, from a package of their
    own; and functions in which one text is replaced by another, by the names of their files."""
    package = folder / f"release_{uuid4().hex}"
    (package / "migrations").mkdir(parents=True)
    (package / "__init__.py").touch()
    for name, script in (migrations or {}).items():
        (package / "migrations" / name).write_text(script)
    patch.syspath_prepend(folder)
    release: Release = schema.RELEASE
    found = []
    for file in release.functions:
        before, after = (functions or {}).get(file.name, ("", ""))
        assert before in file.script
        found.append(file._replace(script=file.script.replace(before, after)))
    release = release._replace(migrations=load_migrations(package.name), functions=tuple(found))
    patch.setattr(schema, "RELEASE", release)
    return release
