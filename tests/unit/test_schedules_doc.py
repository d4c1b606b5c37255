"""docs/schedules.md and docs/schedule-syntax.md cannot lie: every row of their examples is checked against the product,
and what the product accepts and refuses is on the pages."""

import ast
import json
import re
import traceback
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

import pytest

from duetime.errors import InvalidInput
from duetime.model.schedule import Once
from duetime.model.schedule.cron_field import (
    DAY_OF_MONTH,
    DAY_OF_WEEK,
    FULL_MONTHS,
    FULL_WEEKDAYS,
    HOUR,
    MINUTE,
    MONTH,
    MONTHS,
    SECOND,
    WEEKDAYS,
    YEAR,
)
from duetime.model.schedule.cron_line import WORDS
from duetime.model.schedule.describe import exact_form, explain
from duetime.model.schedule.parse import parse_schedule
from duetime.model.schedule.parts import bounded
from duetime.model.schedule.preview import ComingFire, preview
from duetime.model.schedule.rrule_parts import KNOWN
from duetime.model.schedule.words.vocabulary import PHRASES, UNIT_NAMES, VOCABULARY

ROOT = Path(__file__).parents[2]
SYNTAX = ROOT / "docs" / "schedule-syntax.md"
PAGES = (ROOT / "docs" / "schedules.md", SYNTAX)
SOURCE = ROOT / "src" / "duetime" / "model" / "schedule"
PARSERS = ("cron_field", "cron_line", "cron_hash", "dialect", "rrule_parts", "rrule_times", "rrule")
"""The modules of the parser, beside those of the words: each of their refusals has a row on the page."""
SAID = datetime(2026, 3, 27, 10, tzinfo=UTC)
_TABLES_OF_PROSE = {"kind", "field", "`misfire`", "`overlap`", "a run that is"}
"""By the head of their first column: what they say is checked elsewhere."""

Row = tuple[tuple[str, ...], tuple[str, ...]]
Site = tuple[str, int, int]
"""A refusal in the source: the module, and the first and the last line of its statement."""


def rows() -> list[Row]:
    """Every row of every table, with the header of its table."""
    found = []
    for page in PAGES:
        for is_table, group in groupby(page.read_text().splitlines(), lambda line: line.startswith("|")):
            if is_table:
                header, _, *body = (tuple(cell.strip() for cell in line.strip("|").split("|")) for line in group)
                found += [(header, row) for row in body if header[0] not in _TABLES_OF_PROSE]
    return found


def bare(cell: str) -> str:
    return cell.strip("`")


@pytest.mark.parametrize("row", rows(), ids=lambda row: " ".join(map(bare, row[1][:2])))
def test_an_example(row: Row) -> None:
    header, cells = row
    assert len(header) == len(cells)
    given = dict(zip(header, map(bare, cells), strict=True))
    if "means" in given:
        schedule = parse_schedule(given["schedule"], zone=given["zone"] or None, now=SAID)
        assert explain(schedule, given["zone"] or "UTC") == given["means"]
    elif "fires" in given:
        assert fires(given) == re.split(r", (?=[0-9])", given["fires"])
    elif "because" in given:
        assert str(refusal(given["refused"])) == given["because"]
    else:
        assert exact_form(parse_schedule(given["you say"], zone="Europe/Berlin", now=SAID)) == given["it is"]


def fires(given: dict[str, str]) -> list[str]:
    start = datetime.fromisoformat(given["from"])
    schedule = parse_schedule(given["schedule"], zone=given["zone"], now=start)
    if "exclude" in given:
        assert not isinstance(schedule, Once)
        schedule = bounded(schedule, exclude=json.loads(given["exclude"]))
    # One more than the row names shows that a bounded one has ended.
    count = len(re.split(r", (?=[0-9])", given["fires"])) + ("COUNT" in given["schedule"])
    return [shown(fire) for fire in preview(schedule, given["zone"], start, count)]


def shown(fire: ComingFire) -> str:
    text = fire.local.isoformat(" ", "seconds" if fire.local.second else "minutes")
    return f"{text} ({fire.note})" if fire.note else text


def refusal(text: str) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        parse_schedule(text, zone="Europe/Berlin", now=SAID)
    return caught.value


def test_the_pages_are_full_of_examples() -> None:
    kinds = {header for header, _ in rows()}
    assert len(rows()) > 200
    assert len(kinds) == 5


def test_every_refusal_of_the_parser_is_on_the_page() -> None:
    written = {site for module in _modules() for site in _refusals(module)}
    assert len(written) > 60
    raised: set[Site] = set()
    for header, cells in rows():
        if header[0] == "refused":
            raised |= _raised(refusal(bare(cells[0])), written)
    missing = sorted(written - raised)
    assert not missing, "refusals without a row in docs/schedule-syntax.md: " + ", ".join(
        f"{name}:{first}" for name, first, _ in missing
    )


def _modules() -> list[Path]:
    return [*(SOURCE / f"{name}.py" for name in PARSERS), *sorted((SOURCE / "words").glob("*.py"))]


def _refusals(module: Path) -> set[Site]:
    """The statements that refuse something, but for errors that are only passed on under another name."""
    found = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Raise) and node.cause is None and isinstance(node.exc, ast.Call):
            called = ast.unparse(node.exc.func)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            called = ast.unparse(node.value.func)
        else:
            continue
        refuses = called in ("InvalidInput", "_refuse", "refuse", "_unknown") or called.endswith(".refusal")
        if refuses and ast.unparse(node) not in _NOT_BY_TEXT:
            found.add((module.name, node.lineno, node.end_lineno or node.lineno))
    return found


_NOT_BY_TEXT = {
    "raise InvalidInput(message, field='cron', remedy=remedy)",
    "raise InvalidInput(message, field='rrule', remedy=remedy)",
    """raise InvalidInput('is empty', field=field, remedy=f'such as {PHRASES[0]!r}')""",
    """raise InvalidInput(f'{len(text)} characters are too many', field=field, remedy=f'such as {PHRASES[0]!r}')""",
}
"""What makes the errors of a module, and what the length of a text decides."""


def _raised(error: InvalidInput, written: set[Site]) -> set[Site]:
    """The refusals that an error came from: its own, and that of an error that it passes on."""
    found: set[Site] = set()
    chain: BaseException | None = error
    while chain is not None:
        for frame, number in traceback.walk_tb(chain.__traceback__):
            name = Path(frame.f_code.co_filename).name
            found |= {site for site in written if site[0] == name and site[1] <= number <= site[2]}
        chain = chain.__context__
    return found


def test_every_name_of_the_grammar_is_on_the_page() -> None:
    page = SYNTAX.read_text()
    for word in (*WORDS, *KNOWN):
        assert f"`{word}`" in page, word
    for names in (MONTHS, FULL_MONTHS, WEEKDAYS, FULL_WEEKDAYS):
        assert f"`{names[0]}` to `{names[-1]}`" in page
    for kind in (SECOND, MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK, YEAR):
        assert re.search(rf"^\| {kind.name}[^|]*\| {kind.low} to {kind.top}\b", page, re.MULTILINE), kind.name


def test_the_grammar_of_words_has_the_words_of_the_parser() -> None:
    page = SYNTAX.read_text()
    grammar = page[page.index("phrase    once") : page.index("Said on Friday")]
    known = {*VOCABULARY, *(f"{unit}s" for unit in UNIT_NAMES)}
    told = set(re.findall(r"[a-z][a-z']+", re.sub(r"\([^)]*\)", "", grammar.partition("```")[0]).replace("9am", "am")))
    heads = {"phrase", "once", "again", "number", "or", "to", "st", "th"}
    assert told - heads <= known, sorted(told - heads - known)
    examples = " ".join([grammar, *PHRASES]).lower()
    said = set(re.findall(r"[a-z][a-z']*", examples))
    unsaid = [
        word
        for word in VOCABULARY
        if word not in said
        and not re.match("|".join(("mon", "tue", "wed", "thu", "fri", "sat", "sun")), word)  # said by example
        and not re.match("|".join(name.lower() for name in MONTHS), word)
        and word.rstrip("s") not in {unit.rstrip("s") for unit in UNIT_NAMES}
        and word not in ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "weekend")
    ]
    assert not unsaid, unsaid
