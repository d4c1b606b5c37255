"""The identity providers that the operator has configured, from a TOML file: one table for each.

    [acme]
    issuer = "https://id.example.com/realms/acme"
    client_id = "duetime"
    client_secret_file = "/run/secrets/duetime-oidc"

    [[acme.access]]
    group = "billing-oncall"
    tenant = "billing"
    role = "operator"

Everything that is misspelt or missing stops the server at its start: a rule that silently does nothing would be noticed
when it is needed.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from duetime.errors import DuetimeError, SettingsError
from duetime.model.access import SCOPED_ROLES, Role
from duetime.model.identity import AccessRule
from duetime.model.issuer import DEFAULT_ALGORITHMS, check_algorithms
from duetime.model.name import check_key
from duetime.settings import Settings, kinds
from duetime.spec.kinds import read_duration
from duetime.targets.address_guard import AddressGuard
from duetime.targets.url import check_url

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,49}")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_LEAST_SESSION, _MOST_SESSION = timedelta(minutes=5), timedelta(days=30)
_ROLES = {role.name.lower(): role for role in Role if role is not Role.WORKER}
_MOST_RULES = 1000


class _Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule as it is written."""

    role: Literal["root", "admin", "operator", "submitter", "viewer"]
    group: str | None = None
    claim: str | None = None
    value: str | None = None
    tenant: str | None = None
    owner: str | None = None
    owner_claim: str | None = None
    tag: str | None = None
    queue: str | None = None


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A provider as it is written."""

    issuer: str
    client_id: str
    access: list[_Rule]
    title: str | None = None
    client_secret: str | None = None
    client_secret_env: str | None = None
    client_secret_file: str | None = None
    scopes: list[str] = msgspec.field(default_factory=lambda: ["openid", "profile", "email"])
    groups_claim: str = "groups"
    session_lifetime: str = "1h"
    logout: Literal["duetime", "provider"] = "duetime"
    cli_client_id: str | None = None
    cli_redirect_uri: str = "http://127.0.0.1/callback"
    cli_scopes: list[str] | None = None
    audiences: list[str] = msgspec.field(default_factory=list)
    algorithms: list[str] = msgspec.field(default_factory=lambda: list(DEFAULT_ALGORITHMS))
    networks: list[str] = msgspec.field(default_factory=list)


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    title: str
    """On the button of the login page."""
    issuer: str
    client_id: str
    client_secret: str | None
    """None: a public client, which PKCE alone protects."""
    scopes: tuple[str, ...]
    groups_claim: str
    session_lifetime: timedelta
    logout: Literal["duetime", "provider"]
    cli_client_id: str | None
    """The public client of the command line; None: it cannot log in with this provider."""
    cli_redirect_uri: str
    cli_scopes: tuple[str, ...]
    audiences: tuple[str, ...]
    """Of access tokens that are accepted, beside the ID tokens of the command line."""
    algorithms: tuple[str, ...]
    guard: AddressGuard
    rules: tuple[AccessRule, ...]

    def bearer_audience(self, named: object) -> str | None:
        """The audience of a token that is accepted as a bearer token; None: it is not for this server. The client of
        the dashboard is not among them: its tokens never leave the server."""
        listed = named if isinstance(named, list) else [named]
        accepted = (*self.audiences, *([] if self.cli_client_id is None else [self.cli_client_id]))
        return next((each for each in accepted if each in listed), None)

    def __repr__(self) -> str:
        return f"Provider({self.name!r}, {self.issuer!r})"


def read_providers(settings: Settings) -> tuple[Provider, ...]:
    """The providers in the file that the settings name. Raises `SettingsError`."""
    path = settings.oidc_providers
    if path is None:
        return ()
    if settings.public_url is None:
        raise SettingsError(
            "oidc_providers is set, but public_url is not",
            field="public_url",
            remedy="set it to the URL of the dashboard in browsers: providers send the browser back there",
        )
    try:
        with path.open("rb") as file:
            tables = tomllib.load(file)
        found = tuple(_provider(name, table, settings) for name, table in tables.items())
        issuers = [each.issuer for each in found]
        if twice := next((each for each in issuers if issuers.count(each) > 1), None):
            raise ValueError(f"the issuer {twice} appears twice")
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}", field="oidc_providers") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError, ValueError, TypeError) as error:
        raise SettingsError(
            f"{path} cannot be used: {error}", field="oidc_providers", remedy="see docs/sso.md"
        ) from None
    except DuetimeError as error:
        where = f"{error.field} " if error.field else ""
        raise SettingsError(
            f"{path} cannot be used: {where}{error.message}", field="oidc_providers", remedy=error.remedy
        ) from None
    return found


def _provider(name: str, given: Any, settings: Settings) -> Provider:
    if not _NAME.fullmatch(name) or not isinstance(given, dict):
        raise ValueError(f"{name!r} is not a table [name], with a name of letters, digits, _ and -")
    try:
        table = msgspec.convert(given, _Table)
    except msgspec.ValidationError as error:
        raise ValueError(f"[{name}]: {error}") from None
    networks = kinds.networks("").read(table.networks)
    assert isinstance(networks, tuple)
    guard = AddressGuard((*settings.allowed_networks, *networks))
    _check_issuer(table.issuer, guard, name)
    if "openid" not in table.scopes:
        raise ValueError(f"[{name}] scopes does not contain openid")
    lifetime = read_duration(table.session_lifetime, f"[{name}] session_lifetime")
    if not _LEAST_SESSION <= lifetime <= _MOST_SESSION:
        raise ValueError(f"[{name}] session_lifetime is not from 5m to 30d")
    if not 0 < len(table.access) <= _MOST_RULES:
        raise ValueError(f"[{name}] has no [[{name}.access]], or more than {_MOST_RULES}: no one could log in")
    return Provider(
        name=name,
        title=check_key(table.title or name, f"[{name}] title"),
        issuer=table.issuer,
        client_id=check_key(table.client_id, f"[{name}] client_id"),
        client_secret=_secret(name, table),
        scopes=tuple(table.scopes),
        groups_claim=table.groups_claim,
        session_lifetime=min(lifetime, settings.session_lifetime),
        logout=table.logout,
        cli_client_id=table.cli_client_id,
        cli_redirect_uri=_loopback(table.cli_redirect_uri, name),
        cli_scopes=tuple(table.cli_scopes or dict.fromkeys((*table.scopes, "offline_access"))),
        audiences=tuple(check_key(each, f"[{name}] audiences") for each in table.audiences),
        algorithms=check_algorithms(table.algorithms, f"[{name}] algorithms"),
        guard=guard,
        rules=tuple(
            _rule(rule, table.groups_claim, f"[[{name}.access]] number {number}")
            for number, rule in enumerate(table.access, 1)
        ),
    )


def _check_issuer(issuer: str, guard: AddressGuard, name: str) -> None:
    field = f"[{name}] issuer"
    check_url(issuer, guard if issuer.startswith("https:") else guard.only_allowed(), field)
    if urlsplit(issuer).query:
        raise ValueError(f"{field} has a query")


def _loopback(uri: str, name: str) -> str:
    parts = urlsplit(uri)
    if parts.scheme != "http" or parts.hostname not in _LOOPBACK or parts.query or parts.fragment:
        raise ValueError(f"[{name}] cli_redirect_uri is not an http:// address of the user's own machine")
    return uri


def _secret(name: str, table: _Table) -> str | None:
    ways = {
        "client_secret": table.client_secret,
        "client_secret_env": table.client_secret_env,
        "client_secret_file": table.client_secret_file,
    }
    given = {way: value for way, value in ways.items() if value is not None}
    if len(given) > 1:
        raise ValueError(f"[{name}] has {' and '.join(given)}: give one")
    found = table.client_secret
    if table.client_secret_env is not None:
        found = os.environ.get(table.client_secret_env, "")
        if not found:
            raise ValueError(f"[{name}] client_secret_env: the variable {table.client_secret_env} is not set")
    if table.client_secret_file is not None:
        try:
            found = Path(table.client_secret_file).expanduser().read_text(encoding="utf-8").strip()
        except OSError as error:
            raise ValueError(f"[{name}] client_secret_file cannot be read: {error.strerror}") from None
    if found is not None and not found:
        raise ValueError(f"[{name}] the client secret is empty: omit it for a public client")
    return found


def _rule(given: _Rule, groups_claim: str, field: str) -> AccessRule:
    role = _ROLES[given.role]
    if (given.group is None) == (given.claim is None) or (given.claim is None) != (given.value is None):
        raise ValueError(f"{field}: give group, or claim and value")
    if (role is Role.ROOT) != (given.tenant is None):
        raise ValueError(
            f"{field}: tenant is {'not for' if role is Role.ROOT else 'required, except for'} the role root"
        )
    bounds: Mapping[str, str | None] = {
        "owner": given.owner,
        "owner_claim": given.owner_claim,
        "tag": given.tag,
        "queue": given.queue,
    }
    for name, value in bounds.items():
        if value is None:
            continue
        if role not in SCOPED_ROLES:
            raise ValueError(f"{field}: the role {given.role} cannot be bound to {name}")
        check_key(value, f"{field} {name}")
    if given.owner is not None and given.owner_claim is not None:
        raise ValueError(f"{field}: give owner or owner_claim")
    value = check_key(given.value if given.group is None else given.group, f"{field} value")
    return AccessRule(claim=given.claim or groups_claim, value=value, role=role, tenant=given.tenant, **bounds)
