"""Errors of one kind have one fingerprint; errors of two kinds have two."""

import pytest

from duetime.model.failure import FailureClass
from duetime.model.fingerprint import fingerprint, normalised

TRACE = 'Traceback (most recent call last):\n  File "{folder}/jobs.py", line {line}, in {function}\n    work()\n'


def made(message: str, *, folder: str = "/srv", line: int = 7, function: str = "load") -> str:
    error = f"{message}\n{TRACE.format(folder=folder, line=line, function=function)}"
    return fingerprint(FailureClass.ERROR, error)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ValueError: 17 is too large", "ValueError: 4 is too large"),
        ("KeyError: 'ann'", "KeyError: 'bob'"),
        ("E: no job_01m7f844xee3erfd2ydwebaat9", "E: no job_01m7f844xee3erfd2ydwebaat8"),
        ("E: 0b5f1e9e-7a30-4d20-9c8e-0d6f1f3e2a11 is gone", "E: 1b5f1e9e-7a30-4d20-9c8e-0d6f1f3e2a12 is gone"),
        ("E: GET https://a.example/x?y=1 failed", "E: GET https://b.example/z failed"),
        ("E: at 0x7f00ab", "E: at 0x7f00cd"),
        ("E: ann@example.com bounced", "E: bob@example.org bounced"),
    ],
)
def test_what_differs_from_case_to_case_does_not_count(one: str, other: str) -> None:
    assert made(one) == made(other)


def test_where_code_lies_does_not_count_but_which_does() -> None:
    assert made("E: x", line=7, folder="/srv") == made("E: x", line=90, folder="/opt/app")
    assert made("E: x", function="load") != made("E: x", function="save")


def test_kinds_are_told_apart() -> None:
    assert made("ValueError: no") != made("TypeError: no")
    assert made("E: cannot connect") != made("E: cannot read")
    assert fingerprint(FailureClass.TIMEOUT, "x") != fingerprint(FailureClass.LOST, "x")
    assert len(fingerprint(None, None)) == 16


def test_the_same_for_ever() -> None:
    """They are stored: another fingerprint for the same error would split its group."""
    assert fingerprint(FailureClass.ERROR, "ValueError: row 17 of 'orders'") == "b57a34fc86dba273"
    assert normalised("ValueError: row 17  of 'orders'") == "ValueError: row <n> of <text>"
