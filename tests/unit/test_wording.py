"""Sources, docs, deployment files and examples avoid words that hide the actor: name the caller, the worker or the
operator instead. Benchmarks, chaos tests and tests avoid them in comments and docstrings; their other strings and names
may be test data."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
AVOIDED = re.compile(r"(?<![a-z])(?:whoever|somebody|nobody|anybody\s+who|shall)(?![a-z])", re.IGNORECASE)
"""An underscore is a boundary, so that identifiers are checked too."""
SUFFIXES = frozenset(
    (".py", ".sql", ".js", ".mjs", ".html", ".css", ".md", ".json", ".yml", ".yaml", ".tpl", ".toml", ".service", "")
)
ROOTS = ("src", "docs", "deploy", "examples", "README.md", "CHANGELOG.md", "CONTRIBUTING.md")
PROGRAMS = ("bench", "chaos", "tests")


def texts() -> Iterator[Path]:
    for root in (ROOT / name for name in ROOTS):
        for path in (root, *root.rglob("*")):
            if path.is_file() and path.suffix in SUFFIXES and "vendor" not in path.parts:
                yield path


def prose(source: str) -> Iterator[tuple[int, str]]:
    """Comments and docstrings, and the line on which each begins."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text


def test_texts_name_the_actor() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in sorted(texts())
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if AVOIDED.search(line)
    ]
    assert not found, "name who does it, and use must instead of shall:\n" + "\n".join(found)


@pytest.mark.parametrize("folder", PROGRAMS)
def test_comments_and_docstrings_name_the_actor(folder: str) -> None:
    # Hidden folders are left out: `bench/.peers` holds the code of others.
    paths = [path for path in sorted((ROOT / folder).rglob("*.py")) if "/." not in str(path.relative_to(ROOT))]
    assert paths
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in paths
        if AVOIDED.search(source := path.read_text())  # most files need not be parsed
        for number, text in prose(source)
        for match in AVOIDED.finditer(text)
    ]
    assert not found, "name who does it, and use must instead of shall:\n" + "\n".join(found)


def test_prose_is_comments_and_docstrings() -> None:
    source = 'OWNER = "nobody"  # one\n"""Two\nlines."""\n\n\ndef test_nobody() -> None:\n    """Three."""\n'
    assert list(prose(source)) == [(1, "# one"), (2, "Two\nlines."), (7, "Three.")]


def test_every_folder_has_texts() -> None:
    found = {path.relative_to(ROOT).parts[0] for path in texts()}
    assert found == set(ROOTS)


@pytest.mark.parametrize("text", ["Whoever asks next", "if nobody waits", "def _shall_wait(", "anybody who has it"])
def test_an_avoided_word_is_found(text: str) -> None:
    assert AVOIDED.search(text)


@pytest.mark.parametrize("text", ["a shallow copy", "marshall it", "every worker"])
def test_a_word_that_contains_one_is_not(text: str) -> None:
    assert not AVOIDED.search(text)
