"""Every page of the documentation can be read: its tables are tables, and its links lead somewhere."""

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from duetime.cli.main import application
from tests.support import packages_doc

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_RULE = re.compile(r"\|(\s*:?-+:?\s*\|)+")
_LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]*)(?:#([^)\s]*))?\)")
_PATH = re.compile(r"`([\w.*/-]+/(?:[\w*-]+\.(?:py|sql|js|toml))?)`")
_FENCED = re.compile(r"^ *```(?P<kind>\w*)[^\n]*\n(?P<code>.*?)^ *```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"(?:^|[|(] ?|&& )(?:[A-Z_]+=\S+ )*(duetime (?:'[^']*'|[^'\n])*)$", re.MULTILINE)
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


ROOT_COMMAND: Any = typer.main.get_command(application)


def commands(page: Path) -> Iterator[list[str]]:
    """The arguments of each `duetime …` in the blocks of a page."""
    for block in _FENCED.finditer(page.read_text(encoding="utf-8")):
        if block["kind"] in ("", "sh"):
            for line in _COMMAND.findall(block["code"].replace("\\\n", " ")):
                yield shlex.split(re.split(r" [|<>] ?| && |\)", line)[0], comments=True)[1:]


@pytest.mark.parametrize("page", [page for page in PAGES if any(commands(page))], ids=lambda page: page.name)
def test_commands_exist_with_these_options(page: Path) -> None:
    for words in commands(page):
        command = ROOT_COMMAND
        arguments = list(words)
        while arguments and arguments[0] in getattr(command, "commands", {}):
            command = command.commands[arguments.pop(0)]
        if hasattr(command, "commands"):
            assert arguments in ([], ["--help"], ["--install-completion"]), f"no such command: {' '.join(words)}"
            continue
        try:
            command.make_context(command.name, list(arguments), resilient_parsing=True)
        except Exception as error:
            pytest.fail(f"{' '.join(words)}: {error}")
        needed = [each for each in command.params if each.param_type_name == "argument" and each.required]
        assert len([word for word in arguments if word == "-" or not word.startswith("-")]) >= len(needed), " ".join(
            words
        )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_data_can_be_read(page: Path) -> None:
    """JSON, TOML and YAML; an ellipsis stands for what is left out."""
    readers: dict[str, Any] = {"json": json.loads, "toml": tomllib.loads, "yaml": yaml.safe_load}
    for block in _FENCED.finditer(page.read_text(encoding="utf-8")):
        if (read := readers.get(block["kind"])) is not None:
            read(re.sub(r",\s*…\s*(?=[}\]])", "", block["code"]))


def test_every_check_of_doctor_is_described() -> None:
    source = (ROOT / "src/duetime/node/diagnosis.py").read_text()
    made = set(re.findall(r'(?:Finding|failed)\(\s*"(\w+)"', source)) | {"app"}
    section = (ROOT / "docs/cli.md").read_text().partition("## Checking an installation")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == made
