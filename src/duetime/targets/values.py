"""Headers and metadata: validates a tenant's names and values, and inserts the secrets that they reference."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from duetime.errors import InvalidInput
from duetime.model.target import (
    AnyTarget,
    AtBroker,
    AtKafka,
    AtRabbit,
    AtRedis,
    AtSqs,
    GrpcTarget,
    SecretValue,
)
from duetime.targets.target_attempt import TargetAttempt
from duetime.targets.url import Place
from duetime.targets.vault import Vault

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}")
_VALUE = re.compile(r"[\x20-\x7e\x80-\xff]*")
_LONGEST = 8000

# Headers that frame a request, or that duetime itself sets.
_OURS = frozenset(
    {
        *("host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade"),
        *("proxy-authorization", "proxy-connection", "proxy-authenticate", "accept-encoding", "expect"),
        *("idempotency-key", "traceparent", "tracestate", "user-agent"),
    }
)
_OURS_BEGIN = ("webhook-", "duetime-", "grpc-", ":")


def check_values(values: Mapping[str, str | SecretValue], field: str, *, metadata: bool = False) -> None:
    """Refuse names and values that cannot be sent, or that are reserved."""
    seen: set[str] = set()
    for name, value in values.items():
        lower = name.lower()
        where = f"{field}.{name[:60]}"
        if not _NAME.fullmatch(name):
            raise InvalidInput(f"{name[:60]!r} is not a header name", field=field, remedy="letters, digits and hyphens")
        if lower in _OURS or lower.startswith(_OURS_BEGIN):
            raise InvalidInput("is set by duetime", field=where, remedy="remove it")
        if lower in seen:
            raise InvalidInput("appears twice", field=where, remedy="header names are case-insensitive")
        if metadata and lower.endswith("-bin"):
            raise InvalidInput("is binary metadata", field=where, remedy="use a name that does not end with -bin")
        seen.add(lower)
        check_value(value.prefix if isinstance(value, SecretValue) else value, where)


def check_value(value: str, field: str) -> str:
    """Text that is valid in one header: a line break could begin another."""
    if len(value) > _LONGEST:
        raise InvalidInput(f"{len(value)} characters are too many", field=field, remedy=f"at most {_LONGEST}")
    if not _VALUE.fullmatch(value):
        raise InvalidInput(
            "contains characters that a header cannot have",
            field=field,
            remedy="printable Latin-1, without line breaks",
        )
    return value


async def filled(
    values: Mapping[str, str | SecretValue], vault: Vault, attempt: TargetAttempt, place: Place, *others: Place
) -> dict[str, str]:
    """The values with their secrets inserted, to be sent to these places. Raises `NotFound` for a missing secret, and
    `InvalidInput` for one that may not be sent there."""
    found: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, SecretValue):
            secret = await vault.value(attempt.tenant_id, value.secret, place, *others)
            attempt.redactor.learn(secret)
            value = value.prefix + secret
        found[name] = check_value(value, name)
    return found


def encoded_body(body: Any) -> bytes | None:
    """The body of a request or message: text as it is, anything else as JSON. None without one."""
    if body is msgspec.UNSET:
        return None
    return body.encode() if isinstance(body, str) else msgspec.json.encode(body)


def login_of(at: AnyTarget | AtBroker) -> SecretValue | None:
    """The secret that a broker is logged in to with."""
    match at:
        case AtKafka() | AtRedis() | AtRabbit():
            return at.password
        case AtSqs():
            return at.secret_access_key
        case _:
            return None


def named_secrets(target: AnyTarget | AtBroker, field: str = "target") -> Iterator[tuple[str, str]]:
    """The secrets that a target references, each with its field."""
    login = login_of(target)
    if login is not None:
        yield f"{field}.{'secret_access_key' if isinstance(target, AtSqs) else 'password'}", login.secret
    values = "metadata" if isinstance(target, GrpcTarget) else "headers"
    for name, value in getattr(target, values, {}).items():
        if isinstance(value, SecretValue):
            yield f"{field}.{values}.{name}", value.secret
