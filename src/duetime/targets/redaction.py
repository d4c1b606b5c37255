"""Redaction: a receiver's answer must not show the secrets that it was sent.

A receiver may echo a header as it is, in base64, percent-encoded, in JSON, in HTML or in hexadecimal. Every such form
of every secret that an attempt has sent is replaced before any of the answer is truncated, stored or logged.
"""

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec

from duetime.model.failure import Failure
from duetime.model.outcome import Cancelled, Failed, Outcome, Skipped, Snoozed, Succeeded

REDACTED = "[redacted]"
_SHORTEST = 4
"""Characters: where a text was cut off, the part of a form that is left is removed if it has at least this length."""


class Redactor:
    """Knows the secrets of one attempt; none at first."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._forms: tuple[str, ...] = ()
        self._in_json: frozenset[str] = frozenset()
        """The forms, as they appear inside JSON strings."""
        self._shortest = 0
        for secret in secrets:
            self.learn(secret)

    def learn(self, secret: str) -> None:
        # The longest first: where one form contains another, all of the longer one is removed.
        self._forms = tuple(sorted({*self._forms, *_forms(secret)}, key=len, reverse=True))
        self._in_json = frozenset([*self._forms, *(_in_json(form) for form in self._forms)])
        self._shortest = len(self._forms[-1])

    def text(self, text: str, *, cut: bool = False) -> str:
        """The text without secrets. `cut`: its end was cut off, and may hold the beginning of one."""
        if len(text) < self._shortest and not cut:
            return text
        for form in self._forms:
            if form in text:
                text = text.replace(form, REDACTED)
        return self._without_beginning(text) if cut and self._forms else text

    def tail(self, text: str) -> str:
        """The end of a longer text, without secrets: it may begin with the end of one."""
        for form in self._forms:
            start = form.find(text[:_SHORTEST], 1) if len(text) >= _SHORTEST else -1
            while start >= 0:
                if text.startswith(form[start:]):
                    return REDACTED + self.text(text[len(form) - start :])
                start = form.find(text[:_SHORTEST], start + 1)
        return self.text(text)

    def body(self, body: bytes, *, cut: bool = False) -> bytes:
        """The same for bytes in any encoding that extends ASCII; other bytes stay unchanged."""
        if not self._forms:
            return body
        return self.text(body.decode("utf-8", "surrogateescape"), cut=cut).encode("utf-8", "surrogateescape")

    def is_in(self, document: bytes) -> bool:
        """Whether a JSON document may hold a secret."""
        text = document.decode() if self._forms else ""
        return any(form in text for form in self._in_json)

    def document(self, document: bytes) -> bytes:
        """A JSON document without secrets."""
        return msgspec.json.encode(self.value(msgspec.json.decode(document))) if self.is_in(document) else document

    def value(self, value: Any) -> Any:
        """A JSON value without secrets, in its keys too."""
        match value:
            case str():
                return self.text(value)
            case list():
                return [self.value(item) for item in value]
            case dict():
                return {self.text(name): self.value(item) for name, item in value.items()}
            case _:
                return value

    def outcome(self, outcome: Outcome) -> Outcome:
        if not self._forms:
            return outcome
        match outcome:
            case Succeeded(result) if result is not None:
                return Succeeded(self.document(result))
            case Failed(failure):
                return Failed(self._failure(failure))
            case Snoozed(delay, str(reason)):
                return Snoozed(delay, self.text(reason))
            case Cancelled(reason):
                return Cancelled(self.text(reason))
            case Skipped(reason):
                return Skipped(self.text(reason))
            case _:
                return outcome

    def _failure(self, failure: Failure) -> Failure:
        traceback = None if failure.traceback is None else self.text(failure.traceback)
        return msgspec.structs.replace(failure, message=self.text(failure.message), traceback=traceback)

    def _without_beginning(self, text: str) -> str:
        for form in self._forms:
            place = text.find(form[:_SHORTEST], max(0, len(text) - len(form) + 1))
            while place >= 0:
                if form.startswith(text[place:]):
                    return text[:place] + REDACTED
                place = text.find(form[:_SHORTEST], place + 1)
        return text


def _forms(secret: str) -> Iterator[str]:
    yield secret
    yield escape(secret)
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret)[1:-1].replace("/", "\\/")
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    # A header is sent in Latin-1, and may be read as UTF-8.
    for raw in {secret.encode("latin-1", "replace"), secret.encode()}:
        yield raw.decode("utf-8", "surrogateescape")
        for percent in (quote(raw), quote(raw, safe=""), quote_plus(raw)):
            yield percent
            yield _lower_escapes(percent)
        yield raw.hex()
        yield raw.hex().upper()
        yield from _base64(raw)


def _in_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _base64(raw: bytes) -> Iterator[str]:
    """The base64 forms at each of the three possible alignments, without the characters that depend on neighbouring
    bytes."""
    for before in range(3):
        whole = b"\x00" * before + raw
        start, end = -(-before * 8 // 6), len(whole) * 8 // 6
        yield b64encode(whole)[start:end].decode()
        yield urlsafe_b64encode(whole)[start:end].decode()


def _lower_escapes(text: str) -> str:
    head, *rest = text.split("%")
    return "".join([head, *(f"%{part[:2].lower()}{part[2:]}" for part in rest)])
