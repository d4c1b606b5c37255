"""Headers and metadata: validates a tenant's names and values, and inserts the secrets that they reference."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, assert_never

import msgspec

from duetime.errors import InvalidInput
from duetime.model.target import (
    AnyTarget,
    AtBroker,
    AtKafka,
    AtRabbit,
    AtRedis,
    AtSqs,
    Auth,
    AwsSignature,
    ClientCredentials,
    GrpcTarget,
    HttpTarget,
    IdentityToken,
    KubernetesTarget,
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


class NamedSecret(NamedTuple):
    """A secret that a target references."""

    field: str
    name: str
    also_at: Sequence[tuple[str, str]] = ()
    """Where it goes beside the target's own places: URLs, each with its field."""


def named_secrets(target: AnyTarget | AtBroker, field: str = "target") -> Iterator[NamedSecret]:
    """The secrets that a target references."""
    login = login_of(target)
    if login is not None:
        yield NamedSecret(f"{field}.{'secret_access_key' if isinstance(target, AtSqs) else 'password'}", login.secret)
    values = {GrpcTarget: "metadata", KubernetesTarget: "env"}.get(type(target), "headers")
    for name, value in getattr(target, values, {}).items():
        if isinstance(value, SecretValue):
            yield NamedSecret(f"{field}.{values}.{name}", value.secret)
    if isinstance(target, HttpTarget) and target.auth is not None:
        yield from _of_auth(target.auth, target.url, field)


def _of_auth(auth: Auth, url: str, field: str) -> Iterator[NamedSecret]:
    match auth:
        case AwsSignature(secret_access_key=SecretValue() as key):
            yield NamedSecret(f"{field}.auth.secret_access_key", key.secret)
        case IdentityToken(key=SecretValue() as key):
            yield NamedSecret(f"{field}.auth.key", key.secret, places_of_token(auth, url, field))
        case ClientCredentials():
            yield NamedSecret(
                f"{field}.auth.client_secret", auth.client_secret.secret, places_of_token(auth, url, field)
            )
        case _:
            pass


def audience_of(auth: IdentityToken, url: str) -> str:
    """Who an identity token is for."""
    return auth.audience or "/".join(url.split("/", 3)[:3])


def places_of_token(auth: IdentityToken | ClientCredentials, url: str, field: str = "target") -> list[tuple[str, str]]:
    """The URLs, each with its field, that a tenant's secret must be bound to, beside the one that is called. An
    audience is one of them: the holder of a token may act there."""
    found = [(f"{field}.auth.token_url", auth.token_url)]
    if isinstance(auth, IdentityToken) and "://" in (audience := audience_of(auth, url)):
        found.append((f"{field}.auth.audience", audience))
    return found


_SET_BY_AWS = ("authorization", "x-amz-date", "x-amz-security-token", "x-amz-content-sha256")


def check_auth(target: HttpTarget) -> None:
    """Raises `InvalidInput` for an `auth` whose parts do not belong together."""
    auth, given = target.auth, {name.lower(): name for name in target.headers}
    match auth:
        case None:
            return
        case AwsSignature():
            if (auth.access_key_id is None) != (auth.secret_access_key is None):
                missing = "access_key_id" if auth.access_key_id is None else "secret_access_key"
                raise InvalidInput(
                    "the access key has two parts",
                    field=f"target.auth.{missing}",
                    remedy=f"set {missing}",
                )
            if auth.external_id is not None and (auth.role is None or auth.access_key_id is None):
                raise InvalidInput(
                    "is used only if an access key of the tenant assumes a role",
                    field="target.auth.external_id",
                    remedy="set role and access_key_id, or remove it",
                )
            ours: tuple[str, ...] = _SET_BY_AWS
            secret = auth.secret_access_key
        case IdentityToken():
            ours, secret = ("authorization",), auth.key
            check_value(auth.audience or "", "target.auth.audience")
        case ClientCredentials():
            ours, secret = ("authorization",), auth.client_secret
        case _:
            assert_never(auth)
    if secret is not None and secret.prefix:
        raise InvalidInput("a credential has no prefix", field="target.auth", remedy="remove prefix")
    for name in ours:
        if name in given:
            raise InvalidInput("is set by auth", field=f"target.headers.{given[name]}", remedy="remove it, or auth")
