"""A text as a row of words, read from left to right."""

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
    """This is not the phrase that was looked for."""


class Place(NamedTuple):
    """Where and when the words are said."""

    zone: str
    now: datetime
    field: str

    def refusal(self, message: str, remedy: str | None = None) -> InvalidInput:
        """For what was understood, but cannot be."""
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
    """A row of words and how far it has been read. What is asked for and not there raises `NotUnderstood`."""

    def __init__(self, tokens: Sequence[str], place: Place) -> None:
        self._tokens = tokens
        self._position = 0
        self.place = place

    def peek(self, ahead: int = 0) -> str:
        """The next word, or one that is further ahead; empty at the end."""
        at = self._position + ahead
        return self._tokens[at] if at < len(self._tokens) else ""

    def take(self, *words: str) -> str:
        """The next word if it is one of these (any, if none is named); empty if it is not."""
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
        """What the next word means, if it is one of these."""
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
        """The words that are left, followed by those that have been read."""
        return [*self._tokens[self._position :], *self._tokens[: self._position]]

    def end(self) -> None:
        if self.peek():
            raise NotUnderstood
