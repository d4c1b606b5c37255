"""The kinds of settings: how a setting's text is parsed, how its value is written and shown, and how it is documented.

A kind's reader takes what a TOML file, a variable or a flag may contain, and raises ValueError with the reason alone;
`settings` adds the name, the source and the value, as far as it may be shown. A reason never quotes a password.
"""

import re
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

from duetime.duration import format_duration, parse_duration
from duetime.settings.addresses import split_address
from duetime.settings.database_hosts import check_readable, check_writable

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})

_SIZES = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_SIZE = re.compile(rf"([0-9]{{1,15}})\s*({'|'.join(_SIZES)})?")
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,15}")
_MALFORMED = "its host or port is malformed; '@', '/' and ':' in a password are %40, %2F, %3A"


_Ordered = TypeVar("_Ordered", int, timedelta)


def show_all(value: Any) -> object:
    return value


@dataclass(frozen=True)
class Kind:
    """The rule of one setting; `default` documents a default that is not a plain value."""

    description: str
    accepts: str
    read: Callable[[object], object]
    write: Callable[[Any], str] = str
    default: str | None = None
    show: Callable[[Any], object] = show_all
    """What may be shown of a value."""
    secret: bool = False
    """Whether nothing may be shown of an invalid value: any part of it may be secret."""


def text(description: str) -> Kind:
    return Kind(description, "a text that is not empty", _text)


def folder(description: str) -> Kind:
    def read(given: object) -> Path:
        return given if isinstance(given, Path) else Path(_text(given)).expanduser()

    return Kind(description, "the path of a folder, created if missing", read)


def names(description: str) -> Kind:
    def read(given: object) -> tuple[str, ...]:
        parts = given.split(",") if isinstance(given, str) else given
        if not isinstance(parts, list | tuple):
            raise ValueError(f"{_type_name(given)} is not a list of names")
        read_names = tuple(_text(part).strip() for part in parts)
        if "" in read_names:
            raise ValueError("a name is empty")
        if repeated := {name for name in read_names if read_names.count(name) > 1}:
            raise ValueError(f"{min(repeated)!r} appears twice")
        return read_names

    return Kind(description, 'names, as a list or as "one,two"', read, ",".join, default="all")


def networks(description: str) -> Kind:
    def read(given: object) -> tuple[str, ...]:
        parts = given.split(",") if isinstance(given, str) else given
        if not isinstance(parts, list | tuple):
            raise ValueError(f"{_type_name(given)} is not a list of networks")
        try:
            return tuple(str(ip_network(_text(part).strip())) for part in parts)
        except ValueError as error:
            raise ValueError(f"{error}") from None

    return Kind(description, 'networks, as a list or as "10.1.0.0/16,fd00::/8"', read, ",".join, default="none")


def hosts(description: str) -> Kind:
    def read(given: object) -> tuple[str, ...]:
        parts = given.split(",") if isinstance(given, str) else given
        if not isinstance(parts, list | tuple):
            raise ValueError(f"{_type_name(given)} is not a list of host:port")
        found = tuple(_text(part).strip().lower() for part in parts)
        for each in found:
            host, _, port = each.rpartition(":")
            if not host or not (port.isascii() and port.isdigit()) or not 1 <= int(port) <= 65_535:
                raise ValueError(f"{each!r} is not host:port")
        return found

    return Kind(description, 'host:port, as a list or as "kafka1:9092,kafka2:9092"', read, ",".join, default="none")


def file(description: str) -> Kind:
    def read(given: object) -> Path:
        return given if isinstance(given, Path) else Path(_text(given)).expanduser()

    return Kind(description, "the path of a file", read, default="none")


def encryption_keys(description: str) -> Kind:
    """Keys with their names, as `name:base64`: 32 bytes each."""

    def read(given: object) -> tuple[str, ...]:
        parts = given.split(",") if isinstance(given, str) else given
        if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
            raise ValueError("it is not a list of keys")
        keys = tuple(part.strip() for part in parts)
        names = [decoded_key(key)[0] for key in keys]
        if len(set(names)) != len(names):
            raise ValueError("a name appears twice")
        return keys

    accepts = "name:key, with 32 bytes in base64; several as a list or with commas, the one to encrypt with first"

    def show(keys: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(f"{name}:***" for name, _ in map(decoded_key, keys))

    return Kind(description, accepts, read, default="none", show=show, secret=True)


def stream_queues(description: str) -> Kind:
    """Queues with the addresses of their brokers, as `queue=address`."""

    def read(given: object) -> tuple[str, ...]:
        parts = given.split() if isinstance(given, str) else given
        if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
            raise ValueError("it is not a list of queues with addresses")
        streams = tuple(part.strip() for part in parts)
        if any("://" not in part.partition("=")[2] or not part.partition("=")[0] for part in streams):
            raise ValueError("an entry is not queue=address, such as mail=redis://host:6379/0")
        queues = [part.partition("=")[0] for part in streams]
        if len(set(queues)) != len(queues):
            raise ValueError("a queue appears twice")
        return streams

    def show(streams: tuple[str, ...]) -> tuple[str, ...]:
        pairs = (each.split("=", 1) for each in streams)
        return tuple(f"{queue}={without_password(address)}" for queue, address in pairs)

    accepts = "queue=address, such as mail=redis://host:6379/0; several as a list, or with spaces"
    return Kind(description, accepts, read, " ".join, default="none", show=show, secret=True)


def key_provider(description: str) -> Kind:
    def read(given: object) -> str:
        text = _text(given)
        parts = urlsplit(text)
        if parts.scheme == "file" and parts.path:
            return text
        if parts.username is not None or parts.query or parts.fragment or not parts.hostname:
            raise ValueError("it is neither a file nor a URL")
        if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK):
            return text
        raise ValueError("a key provider requires https://, or http:// on this machine")

    return Kind(description, "file:/path/to/keys, or the URL of a key provider (https://…)", read, default="none")


def decoded_key(text: str) -> tuple[str, bytes]:
    """The name and the bytes of an encryption key. Errors do not contain the key."""
    name, _, encoded = text.partition(":")
    try:
        key = b64decode(encoded, validate=True)
    except ValueError:
        key = b""
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,40}", name) or len(key) != 32:
        raise ValueError("a key is not name:base64 with 32 bytes")
    return name, key


def choice(description: str, *options: str) -> Kind:
    def read(given: object) -> str:
        lowered = _text(given).lower()
        if lowered not in options:
            raise ValueError("not one of the choices")
        return lowered

    return Kind(description, f"one of {', '.join(options)}", read)


def count(description: str, low: int, high: int, *, default: str | None = None) -> Kind:
    def read(given: object) -> int:
        if isinstance(given, str) and _WHOLE_NUMBER.fullmatch(given.strip()):
            given = int(given)
        if isinstance(given, bool) or not isinstance(given, int):
            raise ValueError("not a whole number")
        return _between(given, low, high, str)

    return Kind(description, f"a whole number from {low} to {high}", read, default=default)


def size(description: str, low: int, high: int) -> Kind:
    def read(given: object) -> int:
        if isinstance(given, str) and (match := _SIZE.fullmatch(given.strip())):
            given = int(match[1]) * _SIZES[match[2] or "B"]
        if isinstance(given, bool) or not isinstance(given, int):
            raise ValueError("not a size")
        return _between(given, low, high, format_size)

    accepts = f'a size from {format_size(low)} to {format_size(high)}, such as "256KiB", or a number of bytes'
    return Kind(description, accepts, read, format_size)


def duration(description: str, low: str, high: str) -> Kind:
    shortest, longest = parse_duration(low), parse_duration(high)

    def read(given: object) -> timedelta:
        if not isinstance(given, str | int | float | timedelta):
            raise ValueError(f"{_type_name(given)} is not a duration")
        return _between(parse_duration(given), shortest, longest, format_duration)

    return Kind(description, f"a duration from {low} to {high}", read, format_duration)


def database(description: str) -> Kind:
    def read(given: object) -> str:
        address = _text(given)
        scheme, slashes, rest = address.partition("://")
        match scheme if slashes else "":
            case "postgresql" | "postgres":
                _checked(address, check_writable)
            case "sqlite":
                if not rest.startswith("/") or not rest.strip("/"):
                    raise ValueError("a path must follow 'sqlite:///'")
            case "":
                raise ValueError("it must start with postgresql:// or sqlite:///")
            case other:
                raise ValueError(f"duetime does not support the database {other!r}")
        return address

    accepts = (
        "postgresql://user@host/database, or several hosts (postgresql://user@one:5432,two:5432/database), or"
        " sqlite:///relative/path, or sqlite:////absolute/path"
    )
    return Kind(description, accepts, read, default="the SQLite file in data_dir", show=_show_address)


def direct_database(description: str) -> Kind:
    return _postgres(description, check_writable)


def replica(description: str) -> Kind:
    return _postgres(description, check_readable)


def _postgres(description: str, check: Callable[[str], None]) -> Kind:
    def read(given: object) -> str:
        address = _text(given)
        if not address.startswith(("postgresql://", "postgres://")):
            raise ValueError("it is not the URL of a PostgreSQL database")
        _checked(address, check)
        return address

    accepts = "postgresql://user@host/database, or several hosts (postgresql://user@one:5432,two:5432/database)"
    return Kind(description, accepts, read, default="none", show=_show_address)


def server(description: str) -> Kind:
    def read(given: object) -> str:
        address = _text(given)
        if not address.startswith(("http://", "https://")) or not _split(address).hostname:
            raise ValueError("it is not the URL of a server")
        return address.rstrip("/")

    return Kind(description, "such as http://127.0.0.1:8420", read, default="none", show=_show_address)


def mail_server(description: str) -> Kind:
    def read(given: object) -> str:
        address = _text(given)
        parts = _split(address)
        if parts.scheme not in ("smtp", "smtps") or not parts.hostname:
            raise ValueError("it is not the URL of a mail server")
        if parts.path.strip("/") or parts.query or parts.fragment:
            raise ValueError(_MALFORMED)
        if not unquote(f"{parts.username}{parts.password}").isascii():
            raise ValueError("its name and password must be ASCII")
        return address

    accepts = "smtp://host:587, or smtps://name:password@host"
    return Kind(description, accepts, read, default="none", show=_show_address, secret=True)


def archive(description: str) -> Kind:
    def read(given: object) -> str:
        address = _text(given)
        parts = urlsplit(address)
        if parts.query or parts.fragment or "@" in parts.netloc:
            raise ValueError("it contains parts that belong in other settings (archive_endpoint, archive_access_key)")
        if parts.scheme == "file" and not parts.netloc and parts.path.strip("/"):
            return address
        if parts.scheme == "s3" and parts.netloc:
            return address.rstrip("/")
        raise ValueError("it is neither file:///folder nor s3://bucket/prefix")

    return Kind(description, "file:///path/to/folder, or s3://bucket/prefix", read, default="none", secret=True)


def redis_server(description: str) -> Kind:
    def read(given: object) -> str:
        address = _text(given)
        parts = _split(address)
        if parts.scheme not in ("redis", "rediss") or not parts.hostname:
            raise ValueError("it is not the URL of a Redis server")
        if not re.fullmatch(r"/?[0-9]*", parts.path) or parts.query or parts.fragment:
            raise ValueError(_MALFORMED)
        return address

    accepts = "redis://host:6379/0, or rediss://name:password@host/0"
    return Kind(description, accepts, read, default="none", show=_show_address, secret=True)


def secret(description: str) -> Kind:
    def show(value: str | None) -> str | None:
        return None if value is None else "***"

    return Kind(description, "a text that is not empty", _text, default="none", show=show, secret=True)


def without_password(address: object) -> str:
    """A URL for messages and logs; a malformed one loses everything that might be a password."""
    masked = re.sub(r"(?i)(password=)[^&\s]*", r"\1***", str(address))
    before, at, after = masked.rpartition("@")
    if not at:
        return masked
    scheme, slashes, login = before.partition("://")
    user, colon, _ = login.partition(":") if slashes else ("", ":", "")
    return f"{scheme if slashes else ''}{slashes}{user}{':***' if colon else ''}@{after}"


def _show_address(address: object) -> str | None:
    return None if address is None else without_password(address)


def _split(address: str) -> SplitResult:
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        # The original message may quote a part of the password.
        raise ValueError(_MALFORMED) from None
    return parts


def _checked(address: str, check: Callable[[str], None]) -> None:
    try:
        split_address(address)
    except ValueError:
        # The original message may quote a part of the password.
        raise ValueError(_MALFORMED) from None
    check(address)


def format_size(count_of_bytes: int) -> str:
    """In the largest unit that represents it exactly."""
    fits = (unit for unit, size in reversed(_SIZES.items()) if count_of_bytes >= size and count_of_bytes % size == 0)
    unit = next(fits, "B")
    return f"{count_of_bytes // _SIZES[unit]}{unit}"


def _text(given: object) -> str:
    if not isinstance(given, str):
        raise ValueError(f"{_type_name(given)} is not a text")
    if not given.strip():
        raise ValueError("it is empty")
    return given.strip()


def _type_name(given: object) -> str:
    known = {bool: "a yes or no", int: "a number", float: "a number", dict: "a table", list: "a list"}
    return known.get(type(given), f"a {type(given).__name__}")


def _between(given: _Ordered, low: _Ordered, high: _Ordered, write: Callable[[_Ordered], str]) -> _Ordered:
    if given < low:
        raise ValueError(f"less than {write(low)}")
    if given > high:
        raise ValueError(f"more than {write(high)}")
    return given
