"""From bytes to checked values.

JSON is read strictly. Duplicate keys, numbers beyond 64 bits, lone surrogates, NaN and very deep nesting are refused,
because another reader could see a different value. Then the value is converted to its type. An unknown field is refused
with the name of the most similar known field.
"""

import json
import math
import re
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from duetime.api.problems import INVALID_INPUT, INVALID_JSON, TOO_LARGE, Problem
from duetime.codec.type_lookup import allowed_values, choice_error, known_fields, with_integers
from duetime.text.suggestions import search_budget

T = TypeVar("T")
_ENTRY = re.compile(r"\$\.(\w+)\[\.\.\.\]")

MAX_DEPTH = 100
_LONGEST_NAME = 100
_PLACE = re.compile(r"^(.*?)(?: - at `(?:key in )?\$(.*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
_PATTERN = re.compile(r"Expected `str` matching regex '(.*)'", re.DOTALL)
_LENGTH = re.compile(r"Expected `(str|array|object)` of length (>=|<=) ([0-9]+)")
_COUNTED = {"str": "characters", "array": "items", "object": "entries"}
_FORMS = {
    "^[^\\x": "text without NUL characters",
    "^[A-Z": "letters, digits and _ . : / @ -, starting with a letter, digit or _",
    "^job_": "it looks like job_01k…",
    "^run_": "it looks like run_01k…",
}
"""Descriptions of the patterns of names and ids, by their first characters."""
_SPACE = re.compile(r"[ \t\n\r]*")
_LONGEST_GAP = 64 * 1024
"""Characters between two strings without a bracket, comma or colon: whitespace or a number."""
_AS_COMMAS = bytes.maketrans(b"[]{}:", b",,,,,")
_REST_OF_TEXT = re.compile(rb'(?:[^"\\]++|\\.)*+"', re.DOTALL)
_AT_ONCE = 1024 * 1024
"""Bytes that are parsed in one step while other threads wait for the GIL."""
_LONGEST_MESSAGE = 1000
_LONGEST_REMEDY = 400
_WINDOW = 4096
"""Characters. Most jobs of a batch are shorter."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")

_TENANT = "the header Duetime-Tenant, with a root key"
ELSEWHERE = {
    "runAt": "run_at",
    "run_time": "run_at",
    "scheduled_at": "run_at",
    "delay": "run_in",
    "schedule": "cron, rrule, every, or when",
    "cron_expression": "cron, rrule, every, or when",
    "timezone": "tz",
    "parameters": "args",
    "params": "args",
    "payload": "args",
    "payloadRef": "payload_ref",
    "next_fire_time": "next_run",
    "user_id": "owner",
    "max_retries": "retry.retries",
    "tenant_id": _TENANT,
    "tenant": _TENANT,
    "limit": "page_size",
    "per_page": "page_size",
    "page_token": "cursor",
    "offset": "cursor",
}
"""The names of fields in other schedulers."""


def read_json(body: bytes, to: Any = Any) -> Any:
    """Decode JSON into a type. Refuses text that two readers could read differently."""
    try:
        text = body.decode()
        value = _decoder.decode(text)
    except RecursionError:
        raise _too_deep() from None
    except UnicodeDecodeError as error:
        raise _not_utf8(error) from None
    except json.JSONDecodeError as error:
        raise Problem(INVALID_JSON, f"{error.msg} (line {error.lineno}, column {error.colno})") from None
    except ValueError as error:
        raise Problem(INVALID_JSON, str(error)) from None
    if _SURROGATE.search(text) is not None:
        _refuse_half_characters(value)
    try:
        return msgspec.convert(value, to)
    except (msgspec.ValidationError, RecursionError):
        return fit(value, to)


def read_large_json(body: bytes, longest_text: int) -> Any:
    """Decode JSON of any size in which no string, number or whitespace is very long: the C parser holds the GIL while
    it reads one."""
    if len(body) > _AT_ONCE:
        _check_lengths(body, longest_text)
    return read_json(body)


def _check_lengths(body: bytes, longest_text: int) -> None:
    at = 0
    while at < len(body):
        begin = body.find(b'"', at)
        end = len(body) if begin < 0 else begin
        for start in range(at, end - _LONGEST_GAP, _LONGEST_GAP):
            if b"," not in body[start : start + _LONGEST_GAP].translate(_AS_COMMAS):
                raise Problem(INVALID_JSON, f"a number or whitespace is longer than {_LONGEST_GAP:,} characters")
        if begin < 0:
            return
        rest = _REST_OF_TEXT.match(body, begin + 1, begin + 2 + longest_text)
        if rest is None:
            raise Problem(TOO_LARGE, f"a string is not terminated, or is longer than {longest_text:,} bytes")
        at = rest.end()


def read_json_items(body: bytes, most_items: int, largest: int, most_values: int) -> list[Any]:
    """Decode a JSON array item by item. `largest` and `most_values` limit each item.

    Each item is read from a window of at most `largest` characters: the C parser holds the GIL for one window at most.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise _not_utf8(error) from None
    items: list[Any] = []
    at = _skip(text, 0)
    if text[at : at + 1] != "[":
        raise Problem(INVALID_INPUT, "the body is not an array of jobs", remedy="send [{…}, …], or NDJSON")
    at = _skip(text, at + 1)
    if text[at : at + 1] == "]":
        at = _skip(text, at + 1)
    else:
        while True:
            if len(items) == most_items:
                raise Problem(INVALID_INPUT, "the batch has too many jobs", remedy=f"1 to {most_items:,}")
            value, end = _item(text, at, len(items), largest)
            if end - at > most_values and sum(text.count(mark, at, end) for mark in ",[{") > most_values:
                raise Problem(TOO_LARGE, f"more than {most_values:,} values", field=f"[{len(items)}]")
            items.append(value)
            at = _skip(text, end)
            following = text[at : at + 1]
            at = _skip(text, at + 1)
            if following == "]":
                break
            if following != ",":
                raise Problem(INVALID_JSON, f"expected ',' or ']' after item {len(items) - 1}", field="body")
    if at < len(text):
        raise Problem(INVALID_JSON, f"there is more text after the array (character {at})")
    return items


def _item(text: str, at: int, index: int, largest: int) -> tuple[Any, int]:
    window = _WINDOW
    while True:
        part = text[at : at + window]
        cut_off = len(part) == window
        try:
            value, end = _decoder.raw_decode(part)
            if not cut_off or end < window:
                break
            reason = "the item is not terminated"
        except json.JSONDecodeError as error:
            reason = error.msg
        except RecursionError:
            raise _too_deep(f"[{index}]") from None
        except ValueError as error:
            raise Problem(INVALID_JSON, str(error), field=f"[{index}]") from None
        if not cut_off:
            raise Problem(INVALID_JSON, reason, field=f"[{index}]")
        if window == largest:
            raise Problem(
                INVALID_JSON, f"{reason}, or the item is longer than {largest:,} characters", field=f"[{index}]"
            )
        window = min(largest, window * 8)
    if _SURROGATE.search(part, 0, end) is not None:
        _refuse_half_characters(value)
    return value, at + end


def _skip(text: str, at: int) -> int:
    """The position of the next token."""
    match = _SPACE.match(text, at, at + _LONGEST_GAP)
    assert match is not None
    if match.end() == at + _LONGEST_GAP:
        raise Problem(INVALID_JSON, f"whitespace is longer than {_LONGEST_GAP:,} characters")
    return match.end()


def fit(value: Any, to: type[T] | Any, *, field: str = "") -> T:
    """Convert a value to a type. `field` is the place of the value in the request."""
    try:
        try:
            return msgspec.convert(value, to)
        except msgspec.ValidationError as error:
            if "got `float`" not in str(error):
                raise
            return msgspec.convert(with_integers(value, to), to)
    except msgspec.ValidationError as error:
        raise _misfit(_with_key(str(error), value, to), to, field) from None
    except RecursionError:
        raise _too_deep() from None


def _with_key(message: str, value: Any, to: Any) -> str:
    """Name the wrong entry of an object, which the decoder does not: bisection finds it."""
    found = _ENTRY.search(message)
    if found is None or not isinstance(value, dict) or not isinstance(entries := value.get(found[1]), dict):
        return message
    names = list(entries)
    while len(names) > 1:
        half = names[: len(names) // 2]
        try:
            msgspec.convert({**value, found[1]: {name: entries[name] for name in half}}, to)
            names = names[len(half) :]
        except msgspec.ValidationError:
            names = half
    return message.replace(found[0], f"$.{found[1]}.{names[0][:60]}", 1)


def _not_utf8(error: UnicodeDecodeError) -> Problem:
    return Problem(INVALID_JSON, f"byte {error.start} is not UTF-8")


def _too_deep(field: str | None = None) -> Problem:
    return Problem(INVALID_JSON, "is nested too deeply", field=field, remedy=f"at most {MAX_DEPTH} levels")


def read_query(query: bytes, to: type[T]) -> T:
    """Decode a query string. Unknown and repeated parameters are refused."""
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=50)
    except (ValueError, UnicodeDecodeError):
        raise Problem(INVALID_INPUT, "the query string is malformed", field="query") from None
    given = dict(pairs)
    if len(given) != len(pairs):
        raise Problem(INVALID_INPUT, "is given twice", field=_repeated(pairs)[:60], remedy="give it once")
    try:
        return msgspec.convert(given, to, strict=False)
    except msgspec.ValidationError as error:
        raise _misfit(str(error), to, "") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError(f"the key {_repeated(pairs)[:60]!r} occurs twice in one object")
    return found


def _repeated(pairs: list[tuple[str, Any]]) -> str:
    """The first name that occurs twice. One pass: the sender chooses how many names there are."""
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            return name
        seen.add(name)
    raise AssertionError("no name occurs twice")


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is out of range")
    return number


def _integer(text: str) -> int:
    if len(text) > 40:
        raise ValueError(f"a number of {len(text)} digits is out of range")
    return int(text)


def _constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


_decoder = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_number, parse_int=_integer, parse_constant=_constant
)


def _refuse_half_characters(value: Any) -> None:
    """Refuse lone surrogates, which escapes can spell and UTF-8 cannot encode."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            try:
                item.encode()
            except UnicodeEncodeError:
                raise Problem(INVALID_JSON, "a string contains a lone surrogate") from None
        elif isinstance(item, dict):
            waiting.extend(item)
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)


def _misfit(message: str, to: Any, field: str) -> Problem:
    if len(message) > 2 * _LONGEST_MESSAGE:  # it can contain a name that is as long as the body
        message = f"{message[:_LONGEST_MESSAGE]}…{message[-_LONGEST_MESSAGE:]}"
    match = _PLACE.match(message)
    assert match is not None
    reason, place = match[1], (match[2] or "").lstrip(".")
    remedy = None
    unknown, missing = _UNKNOWN.fullmatch(reason), _MISSING.fullmatch(reason)
    if unknown is not None:
        name = unknown[1]
        remedy = _meant(name, to, place)
        reason, place = "is not a known field", _joined(place, name)
    elif missing is not None:
        reason, place = "is missing", _joined(place, missing[1])
    elif (pattern := _PATTERN.fullmatch(reason)) is not None:
        reason = "has the wrong format"
        remedy = _FORMS.get(pattern[1][:5], f"it must match {pattern[1]}")
    elif (length := _LENGTH.fullmatch(reason)) is not None:
        kind, relation, bound = length.groups()
        reason, which = ("is too short", "more") if relation == ">=" else ("is too long", "fewer")
        remedy = f"{int(bound):,} or {which} {_COUNTED[kind]}"
    elif (choice := choice_error(reason, to, place)) is not None:
        reason, remedy = choice.message, choice.remedy
    elif values := allowed_values(to, place):
        remedy = f"one of {', '.join(sorted(values))}"
    where = _joined(field, place)[:200] or None
    shortened = None if remedy is None else remedy[:_LONGEST_REMEDY]
    return Problem(INVALID_INPUT, reason.replace("`", "'"), field=where, remedy=shortened)


def _meant(name: str, to: Any, place: str) -> str | None:
    """What may be meant by a field that the object at a path does not have."""
    known = known_fields(to, place, name)
    elsewhere = ELSEWHERE.get(name)
    if elsewhere is not None and (not place or re.split(r"\W", elsewhere)[0] in known):
        return f"use {elsewhere}"
    close = search_budget.search(_nearest, name[:_LONGEST_NAME], known)
    if close is not None:
        return f"did you mean {close}?"
    return f"known fields: {', '.join(known)}" if known else None


@lru_cache(maxsize=1024)
def _nearest(name: str, known: tuple[str, ...]) -> str | None:
    """The most similar field. Cached: a misspelling often occurs in every job of a batch."""
    return next(iter(get_close_matches(name, known, n=1)), None)


def _joined(before: str, after: str) -> str:
    if not before or not after:
        return before or after
    return f"{before}{after}" if after.startswith("[") else f"{before}.{after}"
