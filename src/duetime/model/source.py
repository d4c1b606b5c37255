"""Sources: messages of other programs that create jobs.

A source names a place at a broker and a template. Each message becomes one job. In the template, `{"$from": "body.id"}`
stands for a value of the message. It is inserted as a value, never as text, and only where a job takes data: a message
cannot choose what runs.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from hashlib import blake2b
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from duetime.errors import InvalidInput
from duetime.model.target import AtKafka, AtRedis, AtSqs

Group = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9._\-]+\Z")]
Start = Literal["earliest", "latest"]
OnBad = Literal["skip", "stop"]

FROM = "$from"
_DEFAULT = "default"
_OPTIONS = frozenset({"run_at", "run_in", "priority", "name", "tags", "concurrency_key", "rate_key"})
_OF_TARGETS = frozenset({"body", "key"})
_NOT_OURS = ("idempotency_key", "payload_ref", "depends_on", "after", "cron", "every", "rrule")
_ROOTS = ("body", "text", "key", "headers", "id")
_DEEPEST = 50
MOST_ERRORS = 10
LONGEST_ERROR = 300


class KafkaSource(AtKafka, frozen=True, tag="kafka", kw_only=True):
    """A topic of Kafka."""

    group: Group = "duetime"
    """The consumer group whose offsets show how far it was read."""
    start: Start = "earliest"
    """Where a new source begins to read."""


class RedisSource(AtRedis, frozen=True, tag="redis", kw_only=True):
    """A Redis stream."""

    group: Group = "duetime"
    """The consumer group that shows how far it was read."""
    start: Start = "earliest"
    """Where a new source begins to read."""


class SqsSource(AtSqs, frozen=True, tag="sqs", kw_only=True):
    """A queue of SQS."""


SourceBroker = KafkaSource | RedisSource | SqsSource


class Source(msgspec.Struct, frozen=True, omit_defaults=True):
    """A source as it is stored."""

    name: str
    broker: SourceBroker
    job: dict[str, Any]
    """The template: the fields of a job."""
    key: str | None = None
    """The path of the value by which repeated messages are recognised; None: the broker's id of the message."""
    on_bad: OnBad = "skip"


class SourceError(msgspec.Struct, frozen=True):
    """A message that became no job."""

    message: str
    """The broker's id of the message."""
    error: str
    at: datetime


class StoredSource(msgspec.Struct, frozen=True):
    """A source, and what became of its messages."""

    tenant_id: int
    source: Source
    version: int
    paused: bool
    stopped: bool
    """Whether a bad message has stopped it."""
    held: bool
    """Whether a node reads it."""
    marks: dict[str, str]
    """How far each part of the place was read: every message up to there is stored, or recorded as bad."""
    received: int
    made: int
    repeated: int
    bad: int
    errors: tuple[SourceError, ...]
    """The newest bad messages."""
    reason: str | None
    """Why it waits."""


class SourceProgress(msgspec.Struct, frozen=True):
    """What a node adds to a source that it reads."""

    marks: Mapping[str, str]
    received: int = 0
    made: int = 0
    repeated: int = 0
    bad: int = 0
    errors: tuple[SourceError, ...] = ()
    reason: str | None = None
    stopped: bool = False


def check_template(source: Source) -> None:
    """Refuse a template in which a message decides more than values. Raises `InvalidInput`."""
    for field in _NOT_OURS:
        if field in source.job:
            raise InvalidInput(
                f"`{field}` is not allowed: each message creates one one-off job",
                field=f"job.{field}",
                remedy="remove it",
            )
    if "key" in source.job:
        raise InvalidInput(
            "would be the key of the jobs of all messages: each would replace the one before",
            field="job.key",
            remedy="remove it; `key` of the source names what makes a message unique",
        )
    for path, place in _placeholders(source.job, ("job",)):
        field = ".".join(path)
        _, first, *rest = *path, ""
        of_target = first == "target" and rest[0] in _OF_TARGETS
        if not (first == "args" or of_target or (first in _OPTIONS and rest == [""])):
            raise InvalidInput(
                "cannot be taken from the message",
                field=field,
                remedy=f"use {FROM} in args, target.body, target.key, or for {', '.join(sorted(_OPTIONS))}",
            )
        if place.keys() - {FROM, _DEFAULT} or not isinstance(place[FROM], str):
            raise InvalidInput(
                f"may contain only `{FROM}` (text) and `{_DEFAULT}`", field=field, remedy=f'{{"{FROM}": "body.id"}}'
            )
        _check_path(place[FROM], field)
    if source.key is not None:
        _check_path(source.key, "key")


def sample(template: Mapping[str, Any]) -> dict[str, Any]:
    """The template with the defaults, and without what only a message can tell, to check the rest of it."""
    found = {
        name: value.get(_DEFAULT) if _is_placeholder(value) else value
        for name, value in template.items()
        if not _is_placeholder(value) or _DEFAULT in value
    }
    if isinstance(target := found.get("target"), dict) and _is_placeholder(target.get("key")):
        found["target"] = {**target, "key": "key"}
    if "args" in found:
        found["args"] = {}
    return found


class MessageValues:
    """What a template can take from a message. The body is decoded on first use."""

    def __init__(self, message_id: str, key: str | None, headers: Mapping[str, str], body: bytes, decode: Any) -> None:
        self._message_id = message_id
        self._key = key
        self._headers = headers
        self._body = body
        self._decode = decode
        self._decoded: Any = msgspec.UNSET

    def job(self, template: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of a job. Without `args` or a target, the body is the arguments. Raises `InvalidInput`."""
        found = {name: self._filled(value) for name, value in template.items()}
        if "args" not in found and "target" not in found:
            found["args"] = self.value("body")
        return found

    def value(self, path: str) -> Any:
        """Raises `InvalidInput` for what the message does not have."""
        found = self._find(path)
        if found is msgspec.UNSET:
            raise InvalidInput(f"the message has no {path}")
        return found

    def _filled(self, value: Any) -> Any:
        if _is_placeholder(value):
            found = self._find(value[FROM])
            if found is msgspec.UNSET and _DEFAULT in value:
                return value[_DEFAULT]
            return self.value(value[FROM]) if found is msgspec.UNSET else found
        if isinstance(value, dict):
            return {name: self._filled(each) for name, each in value.items()}
        if isinstance(value, list):
            return [self._filled(each) for each in value]
        return value

    def _find(self, path: str) -> Any:
        root, _, rest = path.partition(".")
        match root:
            case "id":
                return self._message_id
            case "key":
                return msgspec.UNSET if self._key is None else self._key
            case "headers":
                return self._headers.get(rest.lower(), msgspec.UNSET) if rest else dict(self._headers)
            case "text":
                return self._text()
        if self._decoded is msgspec.UNSET:
            self._decoded = self._decode(self._body)
        found = self._decoded
        for part in rest.split(".") if rest else ():
            if isinstance(found, dict):
                found = found.get(part, msgspec.UNSET)
            elif isinstance(found, list) and part.isascii() and part.isdigit() and len(part) < 10:
                found = found[int(part)] if int(part) < len(found) else msgspec.UNSET
            else:
                return msgspec.UNSET
        return found

    def _text(self) -> str:
        try:
            return self._body.decode()
        except UnicodeDecodeError:
            raise InvalidInput("the body is not UTF-8") from None


def message_key(source: Source, message_id: str, values: MessageValues) -> str:
    """The idempotency key of the job of a message. Raises `InvalidInput`."""
    about, text = "id", message_id
    if source.key is not None:
        value = values.value(source.key)
        if not isinstance(value, str | int) or isinstance(value, bool) or value == "":
            raise InvalidInput(f"{source.key} of the message is not a text or an integer")
        about, text = "key", f"{type(value).__name__} {value}"
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=20).hexdigest()
    return f"source/{source.name}/{about}/{digest}"


def _check_path(path: str, field: str) -> None:
    root, _, rest = path.partition(".")
    if len(path) > 500 or root not in _ROOTS or (root in ("text", "key", "id") and rest) or path.endswith("."):
        remedy = "such as body.order.id, headers.kind, key, id or text"
        raise InvalidInput(f"{path[:60]!r} is not a part of a message", field=field, remedy=remedy)


def _is_placeholder(value: Any) -> bool:
    return isinstance(value, dict) and FROM in value


def _placeholders(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    if len(path) > _DEEPEST:
        raise InvalidInput("is nested too deeply", field=".".join(path[:3]), remedy=f"at most {_DEEPEST} levels")
    if isinstance(value, dict):
        if FROM in value:
            yield path, value
            return
        for name, each in value.items():
            yield from _placeholders(each, (*path, str(name)))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _placeholders(each, (*path, str(index)))


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Source)
_errors = msgspec.json.Decoder(tuple[SourceError, ...])
_marks = msgspec.json.Decoder(dict[str, str])


def encode_source(source: Source) -> bytes:
    return _encoder.encode(source)


def decode_source(body: bytes) -> Source:
    return _decoder.decode(body)


def encode_errors(errors: tuple[SourceError, ...]) -> bytes:
    return _encoder.encode(errors)


def decode_errors(body: bytes) -> tuple[SourceError, ...]:
    return _errors.decode(body)


def encode_marks(marks: Mapping[str, str]) -> bytes:
    return _encoder.encode(dict(marks))


def decode_marks(body: bytes) -> dict[str, str]:
    return _marks.decode(body)
