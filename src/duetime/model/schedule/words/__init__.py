"""Plain words: "every weekday at 9am" becomes a cron line, "every 2 weeks" an interval, "tomorrow at 8" a moment.

docs/schedule-syntax.md describes the grammar. A phrase that is not understood is refused with the nearest valid
phrases. An ambiguous one ("monday at 9": this one, or every one?) is refused as well.

    vocabulary    the words, and the phrases that show them at work
    tokens        a text as a sequence of words
    clock, days   times of the day; days of the week, the month and the year
    repeated      phrases for recurring schedules
    single        phrases for one run
"""

from collections.abc import Iterator
from datetime import datetime
from difflib import SequenceMatcher, get_close_matches

from duetime.errors import InvalidInput
from duetime.model.schedule.stored import Schedule
from duetime.model.schedule.words.clock import read_times
from duetime.model.schedule.words.repeated import REPEATED
from duetime.model.schedule.words.single import SINGLE
from duetime.model.schedule.words.tokens import NotUnderstood, Place, Words, split
from duetime.model.schedule.words.vocabulary import PHRASES, VOCABULARY
from duetime.text.suggestions import search_budget

LONGEST = 200
LONGEST_WORD = 20


def parse_words(text: str, *, zone: str, now: datetime, field: str = "schedule") -> Schedule:
    """The schedule that a phrase means, for a clock in `zone` that shows `now`."""
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput("is empty", field=field, remedy=f"such as {PHRASES[0]!r}")
    if len(text) > LONGEST:
        raise InvalidInput(f"{len(text)} characters are too many", field=field, remedy=f"such as {PHRASES[0]!r}")
    place = Place(zone, now, field)
    try:
        return _understand(text, place)
    except NotUnderstood:
        near = search_budget.search(nearest, text, place) or PHRASES[:3]
    except InvalidInput as error:
        raise InvalidInput(error.message, field=field, remedy=error.remedy) from None
    shown = " ".join(text.split())
    raise InvalidInput(f"{shown[:80]!r} is not understood", field=field, remedy=f"the nearest: {'; '.join(near)}")


def nearest(text: str, place: Place) -> list[str]:
    """The phrases nearest to this one: first itself with its spelling corrected, if that is enough."""
    lowered = " ".join(text.lower().split())
    matcher = SequenceMatcher(b=lowered)

    def distance(phrase: str) -> float:
        matcher.set_seq1(phrase)
        return -matcher.ratio()

    ranked = sorted(PHRASES, key=distance)
    corrected = " ".join(_corrected(word) for word in lowered.split())
    try:
        _understand(corrected, place)
    except (NotUnderstood, InvalidInput):
        return ranked[:3]
    return list(dict.fromkeys([corrected, *ranked]))[:3]


def _understand(text: str, place: Place) -> Schedule:
    for tokens in _orders(split(text), place):
        for phrase in (*SINGLE, *REPEATED):
            words = Words(tokens, place)
            try:
                schedule = phrase(words)
                words.end()
            except NotUnderstood:
                continue
            return schedule
    raise NotUnderstood


def _orders(tokens: list[str], place: Place) -> Iterator[list[str]]:
    """The original order; and if the time came first ("at 9am every weekday"), with the time at the end."""
    yield tokens
    words = Words(tokens, place)
    if words.take("at"):
        read_times(words)
        if words.peek():
            yield words.rest_first()


def _corrected(word: str) -> str:
    if not word.isalpha() or word in VOCABULARY or len(word) > LONGEST_WORD:
        return word
    return next(iter(get_close_matches(word, VOCABULARY, n=1, cutoff=0.7)), word)
