"""The address of a broker, as an operator writes it, and the adapter that it names.

An adapter and its client library are imported on first use: each library is an extra of duetime.
"""

import re
from collections.abc import Collection, Mapping
from importlib import import_module
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from duetime.errors import InvalidInput
from duetime.model.carried import UNREADABLE
from duetime.process.loading import load
from duetime.settings.addresses import split_address
from duetime.settings.kinds import without_password
from duetime.streams.protocol import Broker

_PREFIX = re.compile(r"[A-Za-z0-9]{1,16}")
_LONGEST = 2000


class _Kind(NamedTuple):
    module: str
    adapter: str
    extra: str
    example: str


_REDIS = _Kind("redis", "RedisBroker", "redis", "redis://host:6379/0")
_RABBITMQ = _Kind("rabbitmq", "RabbitBroker", "rabbitmq", "amqp://user:password@host/vhost")
_KINDS = {
    "redis": _REDIS,
    "rediss": _REDIS,
    "kafka": _Kind("kafka", "KafkaBroker", "kafka", "kafka://host1:9092,host2:9092"),
    "sqs": _Kind("sqs", "SqsBroker", "sqs", "sqs://region"),
    "amqp": _RABBITMQ,
    "amqps": _RABBITMQ,
}


async def broker_at(address: str, *, replicas: int | None = None) -> Broker:
    """The broker at this address, not yet open. Raises `InvalidInput`."""
    kind = _kind_of(address)
    prefix_of(address)
    if replicas is not None and kind is not _REDIS:
        raise InvalidInput(
            "is a setting of Redis streams", field="replicas", remedy="set the replication at the broker itself"
        )
    module = await adapter(f"duetime.streams.{kind.module}", kind.extra, "stream")
    broker: Broker = getattr(module, kind.adapter)(address, **({} if replicas is None else {"replicas": replicas}))
    return broker


async def adapter(module: str, extra: str, field: str) -> Any:
    """A module whose client library is an extra. Raises `InvalidInput` if that is not installed."""
    try:
        await load(module)
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("duetime"):
            raise
        raise InvalidInput(
            f"needs {error.name}, which is not installed", field=field, remedy=f"pip install 'duetime[{extra}]'"
        ) from None


def shown_address(address: str) -> str:
    """The address without its password."""
    return without_password(address)


def endpoint_of(address: str) -> tuple[str, str]:
    """Where an address leads: the same for all users and options."""
    parts = split_address(address)
    return parts.netloc.rpartition("@")[2].lower(), parts.path.strip("/")


def prefix_of(address: str) -> str:
    """How the names of all streams at this address begin: `?prefix=…`, so that installations can share a broker."""
    given = options_of(address).get("prefix", "duetime")
    if not _PREFIX.fullmatch(given):
        raise InvalidInput(f"prefix {given[:40]!r} is not valid", field="stream", remedy="1 to 16 letters and digits")
    return given


def options_of(address: str) -> dict[str, str]:
    """The options after the question mark."""
    return dict(parse_qsl(split_address(address).query, keep_blank_values=True))


def known_options(address: str, known: Collection[str]) -> dict[str, str]:
    """The options of an address other than `prefix`, which all brokers have. Raises `InvalidInput` for others than the
    known ones."""
    options = options_of(address)
    options.pop("prefix", None)
    unknown = options.keys() - set(known)
    if unknown:
        raise invalid(f"the option {min(unknown)[:40]!r} is unknown", f"use {', '.join(['prefix', *sorted(known)])}")
    return options


def flag_of(options: Mapping[str, str], name: str) -> bool:
    """An option that is true or false; not given, it is false. Raises `InvalidInput`."""
    given = options.get(name, "false")
    if given not in ("true", "false"):
        raise invalid(f"{name} {given[:40]!r} is not valid", "true or false")
    return given == "true"


def client_address(address: str, known: Collection[str], example: str, *, numbered: bool = False) -> str:
    """The address as a client library takes it, which knows these options. `numbered`: its path is a number. Raises
    `InvalidInput`."""
    options = known_options(address, known)
    try:
        parts = urlsplit(address)
        _ = parts.port
        if not parts.hostname or parts.fragment or (numbered and not (parts.path.strip("/") or "0").isdigit()):
            raise ValueError
    except ValueError:
        raise invalid("is malformed", example) from None
    return urlunsplit(parts._replace(query=urlencode(options)))


def invalid(message: str, remedy: str) -> InvalidInput:
    return InvalidInput(message, field="stream", remedy=remedy)


def _kind_of(address: str) -> _Kind:
    if len(address) > _LONGEST or not address.isprintable():
        raise InvalidInput("is not an address", field="stream", remedy=f"at most {_LONGEST} printable characters")
    if address == UNREADABLE:
        raise InvalidInput(
            "the address of the broker is encrypted, and this process does not have the key",
            field="stream",
            remedy="add the key to encryption_keys (DUETIME_ENCRYPTION_KEYS)",
        )
    scheme, separator, _ = address.partition("://")
    kind = _KINDS.get(scheme.lower()) if separator else None
    if kind is None:
        examples = ", ".join(kind.example for kind in dict.fromkeys(_KINDS.values()))
        raise InvalidInput(
            f"{without_password(address)[:60]!r} names no known broker", field="stream", remedy=f"such as {examples}"
        )
    return kind
