"""docs/schedules.md cannot lie: every row of its examples is checked against the product."""

import json
import re
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

import pytest

from duetime.errors import InvalidInput
from duetime.model.schedule import Once
from duetime.model.schedule.making import bounded
from duetime.model.schedule.previewing import ComingFire, preview
from duetime.model.schedule.reading import parse_schedule
from duetime.model.schedule.telling import exact_form, explain

PAGE = Path(__file__).parents[2] / "docs" / "schedules.md"
SAID = datetime(2026, 3, 27, 10, tzinfo=UTC)
_TABLES_OF_PROSE = {"kind", "field", "`misfire`", "`overlap`", "a run that is"}
"""By the head of their first column: what they say is checked elsewhere."""

Row = tuple[tuple[str, ...], tuple[str, ...]]


def rows() -> list[Row]:
    """Every row of every table, with the header of its table."""
    found = []
    lines = PAGE.read_text().splitlines()
    for is_table, group in groupby(lines, lambda line: line.startswith("|")):
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
        schedule = parse_schedule(given["schedule"], zone=given["zone"], now=SAID)
        assert explain(schedule, given["zone"]) == given["means"]
    elif "fires" in given:
        assert fires(given) == re.split(r", (?=[0-9])", given["fires"])
    elif "because" in given:
        with pytest.raises(InvalidInput) as caught:
            parse_schedule(given["refused"], zone="Europe/Berlin", now=SAID)
        assert str(caught.value).startswith(given["because"])
    else:
        assert exact_form(parse_schedule(given["you say"], zone="Europe/Berlin", now=SAID)) == given["it is"]


def fires(given: dict[str, str]) -> list[str]:
    start = datetime.fromisoformat(given["from"])
    schedule = parse_schedule(given["schedule"], zone=given["zone"], now=start)
    if "exclude" in given:
        assert not isinstance(schedule, Once)
        schedule = bounded(schedule, exclude=json.loads(given["exclude"]))
    count = len(re.split(r", (?=[0-9])", given["fires"]))
    return [shown(fire) for fire in preview(schedule, given["zone"], start, count)]


def shown(fire: ComingFire) -> str:
    text = fire.local.isoformat(" ", "seconds" if fire.local.second else "minutes")
    return f"{text} ({fire.note})" if fire.note else text


def test_the_page_is_full_of_examples() -> None:
    kinds = {header for header, _ in rows()}
    assert len(rows()) > 80
    assert len(kinds) == 5
