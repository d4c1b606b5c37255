"""Secrets taken out of what receivers say."""

import html
import json
import re
from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote, quote_plus

import pytest

from duetime.model.failure import Failure, FailureClass
from duetime.model.outcome import Failed, Succeeded
from duetime.targets.redaction import REDACTED, Redactor

SECRET = 'to/ken+with "odd" <parts> & %41 é'
RAW = SECRET.encode("latin-1")
ECHOES = [
    SECRET,
    quote(RAW),
    re.sub("%..", lambda found: found[0].lower(), quote(RAW, safe="")),
    quote(RAW, safe=""),
    quote_plus(RAW),
    json.dumps(SECRET),
    json.dumps({"authorization": f"Bearer {SECRET}"}),
    html.escape(SECRET),
    RAW.hex(),
    b64encode(RAW).decode(),
    urlsafe_b64encode(b"x" + RAW + b"tail").decode(),
    b64encode(b"Bearer " + SECRET.encode()).decode(),
    b64encode(b"user:" + RAW + b":more").decode(),
]


@pytest.mark.parametrize("echo", ECHOES)
def test_every_form_of_a_secret_is_taken_out(echo: str) -> None:
    said = Redactor([SECRET]).text(f"you sent {echo} to me")
    assert REDACTED in said
    for length in (8, len(SECRET)):
        assert echo[5 : 5 + length] not in said or echo[5 : 5 + length] in '"authorization": "Bearer '


def test_bytes_that_are_no_text_stay_as_they_are() -> None:
    redactor = Redactor(["s3cret-value"])
    assert redactor.body(b"\xff\xfe s3cret-value \x80") == b"\xff\xfe [redacted] \x80"
    assert Redactor([SECRET]).body(b"\xff " + RAW) == b"\xff [redacted]"


def test_what_is_cut_off_in_the_middle_of_a_secret_loses_its_beginning() -> None:
    redactor = Redactor(["s3cret-value"])
    assert redactor.text("you sent s3cret-va", cut=True) == "you sent [redacted]"
    assert redactor.text("you sent s3cret-va") == "you sent s3cret-va"
    assert redactor.body(b"you sent s3cret-valu", cut=True) == b"you sent [redacted]"


def test_values_and_outcomes() -> None:
    redactor = Redactor(["s3cret-value", "another-one"])
    assert redactor.value({"a": ["s3cret-value", 7, None], "another-one": {"b": "x another-one"}}) == {
        "a": [REDACTED, 7, None],
        REDACTED: {"b": f"x {REDACTED}"},
    }
    assert redactor.outcome(Succeeded(b'{"body":"s3cret-value"}')) == Succeeded(b'{"body":"[redacted]"}')
    failure = Failure(FailureClass.ERROR, "it said s3cret-value", traceback="with another-one")
    assert redactor.outcome(Failed(failure)) == Failed(
        Failure(FailureClass.ERROR, f"it said {REDACTED}", traceback=f"with {REDACTED}")
    )


def test_documents() -> None:
    """A document in which no form stands is not taken apart; one in which a form stands inside quoted JSON is."""
    redactor = Redactor([SECRET])
    untouched = b'{"a": [1.0, "nothing", null]}'
    assert redactor.document(untouched) is untouched
    for echo in ECHOES:
        document = json.dumps({"said": [echo, json.dumps({"inside": echo})]}, ensure_ascii=False).encode()
        assert json.loads(redactor.document(document))["said"][0].count(REDACTED) == 1


def test_without_secrets_nothing_is_touched() -> None:
    outcome = Succeeded(b'{"a":1.0}')
    assert Redactor().outcome(outcome) is outcome


@pytest.mark.parametrize("left", [4, 10, len(SECRET) - 1])
def test_a_text_that_begins_in_the_middle_of_a_secret_shows_nothing_of_it(left: int) -> None:
    redactor = Redactor([SECRET])
    assert redactor.tail(f"{SECRET[-left:]} and {SECRET}.") == f"{REDACTED} and {REDACTED}."
    assert redactor.tail(quote(RAW, safe="")[-left:]) == REDACTED
    assert redactor.tail("nothing") == "nothing" and redactor.tail("é") == "é" and redactor.tail("") == ""
