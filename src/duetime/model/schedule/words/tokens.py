"""A text as a sequence of words, read from left to right."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, TypeVar

from duetime.errors import InvalidInput

T = TypeVar("T")

_TOKEN = re.compile(
    r"\s*([0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{1,2}(?::[0-9]{2}){1,2}|:[0-9]{2}|[0-9]+(?:st|nd|rd|th)|[0-9]+|[a-z']+|,)"
)
_DOTTED = re.compile(r"\b([ap])\.m\.?")


class NotUnderstood(Exception):
    """The words do not match the tried phrase."""


class Place(NamedTuple):
    """The zone and the time at which the words are read."""

    zone: str
    now: datetime
    field: str

    def refusal(self, message: str, remedy: str | None = None) -> InvalidInput:
        """For words that are understood, but invalid."""
        return InvalidInput(message, field=self.field, remedy=remedy)


def split(text: str) -> list[str]:
    """The words of a text, in lower case."""
    rest = _DOTTED.sub(r"\1m", text.lower()).strip().removesuffix(".")
    tokens, position = [], 0
    while position < len(rest):
        match = _TOKEN.match(rest, position)
        if match is None:
            raise NotUnderstood
        tokens.append(match[1])
        position = match.end()
    return tokens


class Words:
    """A sequence of words and the read position. A required word that is missing raises `NotUnderstood`."""

    def __init__(self, tokens: Sequence[str], place: Place) -> None:
        self._tokens = tokens
        self._position = 0
        self.place = place

    def peek(self, ahead: int = 0) -> str:
        """The next word, or one further ahead; empty at the end."""
        at = self._position + ahead
        return self._tokens[at] if at < len(self._tokens) else ""

    def take(self, *words: str) -> str:
        """The next word if it is one of these (any, if none is named); otherwise empty."""
        word = self.peek()
        if word and (not words or word in words):
            self._position += 1
            return word
        return ""

    def need(self, *words: str) -> str:
        word = self.take(*words)
        if not word:
            raise NotUnderstood
        return word

    def look_up(self, meanings: Mapping[str, T]) -> T | None:
        """The meaning of the next word, if it is one of these."""
        meaning = meanings.get(self.peek())
        if meaning is not None:
            self._position += 1
        return meaning

    def need_one_of(self, meanings: Mapping[str, T]) -> T:
        meaning = self.look_up(meanings)
        if meaning is None:
            raise NotUnderstood
        return meaning

    def separator(self) -> bool:
        """A comma, an "and", or both: another item of a list follows."""
        return bool(self.take(",")) | bool(self.take("and"))

    def rest_first(self) -> list[str]:
        """The unread words, followed by the read ones."""
        return [*self._tokens[self._position :], *self._tokens[: self._position]]

    def end(self) -> None:
        if self.peek():
            raise NotUnderstood
