"""Every page of the documentation can be read: its tables are tables, and its links lead somewhere."""

import re
from pathlib import Path

import pytest

from tests.support import packages_doc

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_RULE = re.compile(r"\|(\s*:?-+:?\s*\|)+")
_LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]*)(?:#([^)\s]*))?\)")
_PATH = re.compile(r"`([\w.*/-]+/(?:[\w*-]+\.(?:py|sql|js|toml))?)`")
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def cells(line: str) -> int:
    """Columns of a row; a bar in code, or after a backslash, is none."""
    return len(re.findall(r"(?<!\\)\|", _CODE.sub("", line))) - 1


def anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tables_have_as_many_columns_everywhere(page: Path) -> None:
    lines = page.read_text().splitlines()
    for number, line in enumerate(lines):
        if not _RULE.fullmatch(line.strip()):
            continue
        width = cells(line)
        assert cells(lines[number - 1]) == width, f"{page.name}:{number}: {lines[number - 1]}"
        for row in lines[number + 1 :]:
            if not row.startswith("|"):
                break
            assert cells(row) == width, f"{page.name}: {row}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in _LINK.findall(_CODE.sub("", page.read_text())):
        linked = (page.parent / target).resolve() if target else page
        assert linked.exists(), f"{page.name} links to {target}"
        if anchor and linked.suffix == ".md":
            assert anchor in anchors(linked), f"{page.name} links to {target}#{anchor}"


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_named_files_exist(name: str) -> None:
    paths = set(_PATH.findall((ROOT / name).read_text()))
    assert len(paths) > 30
    roots = (ROOT / "src" / "duetime", ROOT)
    assert sorted(path for path in paths if not any(any(root.glob(path)) for root in roots)) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_words_are_plain(page: Path) -> None:
    found = re.findall(r"\b(?:whoever|somebody|nobody|anybody|everybody|shall)\b", page.read_text(), re.IGNORECASE)
    assert found == [], "name the process, the user or the role"


def test_the_diagram_of_packages_shows_the_import_layers() -> None:
    text = packages_doc.PAGE.read_text(encoding="utf-8")
    assert text == packages_doc.with_diagram(text), "run: make docs"
    assert {name for layer in packages_doc.layers() for name in layer} == packages_doc.HOLDS.keys()
