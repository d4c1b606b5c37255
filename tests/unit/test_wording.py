"""Sources and docs avoid words that hide the actor: name the caller, the worker or the operator instead."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
AVOIDED = re.compile(r"(?<![a-z])(?:whoever|somebody|nobody|anybody\s+who|shall)(?![a-z])", re.IGNORECASE)
"""An underscore is a boundary, so that identifiers are checked too."""
SUFFIXES = frozenset({".py", ".sql", ".js", ".html", ".md"})


def texts() -> Iterator[Path]:
    roots = (ROOT / "src", ROOT / "docs", *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")))
    for root in roots:
        yield from (path for path in (root, *root.rglob("*")) if path.suffix in SUFFIXES and "vendor" not in path.parts)


def test_sources_and_docs_name_the_actor() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in sorted(texts())
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if AVOIDED.search(line)
    ]
    assert not found, "name who does it, and use must instead of shall:\n" + "\n".join(found)


@pytest.mark.parametrize("text", ["Whoever asks next", "if nobody waits", "def _shall_wait(", "anybody who has it"])
def test_an_avoided_word_is_found(text: str) -> None:
    assert AVOIDED.search(text)


@pytest.mark.parametrize("text", ["a shallow copy", "marshall it", "every worker"])
def test_a_word_that_contains_one_is_not(text: str) -> None:
    assert not AVOIDED.search(text)
