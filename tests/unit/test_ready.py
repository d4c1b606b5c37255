"""What makes a run claimable is known: each statement that does, in both dialects, is declared here.

A run is claimable while it has a lane (`lane_id` above zero), no worker, and `ready_at` has come. So a statement counts
when it inserts into `runs` or sets one of these three columns. What becomes claimable has to be announced
(`store/shared/ready.py`), and a stream of ready runs has to learn of it: a statement that is missing here was added
without that.
"""

import re
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from itertools import chain

import pytest

from duetime.store.shared.sql_text import sql_text

ANNOUNCED = {
    "insert_ready": "submitted, due now",
    "insert_once": "submitted, due soon",
    "land": "it was in a stream",
    "insert_dependents": "submitted in a graph or after other jobs, with nothing to wait for",
    "make_runs": "fired, triggered or backfilled",
    "make_followers": "a job ended that another one runs after",
    "repeat_runs": "replayed",
    "ready_now": "retried by hand while it waited for its next attempt",
    "free_blocked": "its parents have ended",
    "unblock": "the other runs of its job have ended",
    "unpark": "its limit has room",
    "release_rate_queue": "the rate that it waited for is no more",
    "advance_lines": "the clock was put back while it waited for a rate",
    "retry_runs": "its attempt failed, snoozed or was lost",
    "hand_back": "its worker did not begin it",
    "release": "its worker never knew that it had claimed it",
    "free_unlisted": "its worker does not list its claim",
    "revise_runs": "its job was edited, and with it its lane",
    "put_on_trial": "it, its job or its task is suspected: it moves to a trial lane",
    "take_off_trial": "its job is not suspected any more: it leaves a trial lane",
}
"""What makes runs claimable, in a lane where they were not."""
NOT_ANNOUNCED = {
    "claim": "takes",
    "lease_claimed": "takes",
    "claim_announced": "takes",
    "claim_many": "takes",
    "claim_limited": "takes",
    "take_late": "takes",
    "park_runs": "takes out of the lane",
    "put_off_runs": "delays",
    "leave_runs": "delays",
    "schedule_rate_queues": "part of a claim, which takes what it moves forward",
    "restamp_runs": "delays, within the moment",
    "follow_runs": "delays, within the moment",
}
ONLY_POSTGRES = {
    "claim": "SQLite reads with it, and takes with `lease_claimed`",
    "claim_announced": "a claim of several statements in SQLite",
    "claim_many": "a claim of several statements in SQLite",
    "insert_once": "in SQLite it stores a job; what is due soon is an `insert_ready`",
    "restamp_runs": "a file has no marks that a claim could have moved",
    "follow_runs": "the same: it writes no other column in SQLite",
}
ONLY_SQLITE = {
    "claim_limited": "`claim_many` of chosen runs in PostgreSQL",
    "lease_claimed": "part of `claim` in PostgreSQL",
}

_FUNCTION = re.compile(r"create (?:or replace )?function duetime\.(\w+)\(")
_STATEMENT = re.compile(r"^-- ([a-z_]+): .+$", re.MULTILINE)
_COMMENT = re.compile(r"--[^\n]*")
_WRITE = re.compile(r"\b(?:(insert) into|update)\s+(?:duetime\.)?runs\b")
_SET = re.compile(r"\bset\b")
_END = re.compile(r"\b(?:from|where|returning)\b|[;)]")
_DECIDES = frozenset({"lane_id", "worker_id", "ready_at"})


def written(dialect: str) -> dict[str, set[str]]:
    """What of a dialect decides whether runs are claimable: the names, and which columns they write."""
    found: dict[str, set[str]] = {}
    store = resources.files("duetime.store")
    for name, raw in chain(_files(store / dialect, ".sql"), _files(store / "shared", ".sql")):
        text = sql_text(raw, name)
        heads = list(_FUNCTION.finditer(text)) or list(_STATEMENT.finditer(text))
        for place, head in enumerate(heads):
            body = text[head.end() : heads[place + 1].start() if head is not heads[-1] else len(text)]
            if columns := _columns(_COMMENT.sub("", body).lower()):
                found.setdefault(head[1], set()).update(columns)
    return found


def _files(folder: Traversable, suffix: str) -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _files(entry, suffix)
        elif entry.name.endswith(suffix):
            yield entry.name, entry.read_text("utf-8")


def _columns(body: str) -> set[str]:
    found: set[str] = set()
    for write in _WRITE.finditer(body):
        if write[1]:
            found.add("insert")
            continue
        start = _SET.search(body, write.end())
        assert start is not None, body
        found |= set(_assigned(body[start.end() :])) & _DECIDES
    return found


def _assigned(text: str) -> Iterator[str]:
    """The columns on the left of a SET clause."""
    depth, part = 0, ""
    for place, letter in enumerate(text):
        if depth == 0 and _END.match(text, place):
            break
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and letter == ",":
            yield part.partition("=")[0].strip()
            part = ""
        else:
            part += letter
    yield part.partition("=")[0].strip()


@pytest.mark.parametrize(("dialect", "missing"), [("postgres", set(ONLY_SQLITE)), ("sqlite", set(ONLY_POSTGRES))])
def test_every_statement_that_decides_whether_runs_are_claimable_is_declared(dialect: str, missing: set[str]) -> None:
    assert set(written(dialect)) == (ANNOUNCED.keys() | NOT_ANNOUNCED.keys()) - missing


def test_runs_are_announced_in_one_place() -> None:
    """So that one place can tell others than the listeners, or tell them more."""
    files = _files(resources.files("duetime.store"), ".py")
    assert [name for name, text in files if "Hint.READY)" in text] == ["ready.py"]


def test_what_a_statement_writes_is_found() -> None:
    assert _columns("insert into duetime.runs (id) values ($1)") == {"insert"}
    assert _columns(
        "with a as (update runs r set x = (select 1 where true), lane_id = - lane_id where worker_id = $1)"
    ) == {"lane_id"}
    assert _columns("update duetime.runs set ready_at = f.at, worker_id=null from first f") == {"ready_at", "worker_id"}
    assert _columns("update runs set claim_no = 1 where lane_id = 2; update jobs set ready_at = 1") == set()
    assert _columns("update runs_seen set lane_id = 1; insert into runs_seen values (1)") == set()
