"""People and services that an identity provider (OpenID Connect) vouches for, and what they may do.

The operator's rules map claims of a provider, such as groups, to a role in a tenant. Of a person only the claims that
rules name are kept. The rules are applied again at each request, so a changed rule applies to everyone.

The first rule that fits decides for its tenant. A rule with the role `root` fits every tenant.
"""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from duetime.errors import InvalidInput
from duetime.model.access import Role
from duetime.model.name import check_key
from duetime.model.scope import Scope, scope_of

EMAIL, EMAIL_VERIFIED = "email", "email_verified"
_MOST_EMAIL = 254


class AccessRule(msgspec.Struct, frozen=True, kw_only=True):
    """Who has this value in this claim gets this role in this tenant."""

    claim: str
    value: str
    role: Role
    tenant: str | None
    """None exactly for `root`."""
    owner: str | None = None
    owner_claim: str | None = None
    """The claim that names the owner of the jobs, instead of `owner`."""
    tag: str | None = None
    queue: str | None = None


class TenantGrant(NamedTuple):
    """What a person may do in a tenant, or (None) in all."""

    tenant: str | None
    role: Role
    scope: Scope | None


class Identity(msgspec.Struct, frozen=True, omit_defaults=True):
    """A person or a service, as a session stores it."""

    provider: str
    """The name of the provider in the settings of this server."""
    issuer: str
    subject: str
    """The claims `iss` and `sub`: together they name the person, for ever."""
    email: str | None = None
    facts: tuple[tuple[str, str], ...] = ()
    """Claims with their values, as far as rules name them."""

    @property
    def id(self) -> UUID:
        """The same for the same person, whatever the provider is called here."""
        about = msgspec.json.encode([self.issuer, self.subject])
        return UUID(bytes=blake2b(about, digest_size=16, person=b"duetime user").digest())

    @property
    def label(self) -> str:
        """For the audit log: an address alone could be given to another person later."""
        named = f"{self.issuer} {self.subject}"
        return named if self.email is None else f"{self.email} ({named})"

    def grants(self, rules: Iterable[AccessRule]) -> tuple[TenantGrant, ...]:
        """What the rules give, one grant for each tenant, in the order of the rules."""
        found: dict[str | None, TenantGrant] = {}
        for rule in rules:
            if (rule.claim, rule.value) in self.facts and rule.tenant not in found:
                owner = rule.owner
                if rule.owner_claim is not None:
                    owner = next((value for claim, value in self.facts if claim == rule.owner_claim), None)
                    if owner is None:
                        continue
                found[rule.tenant] = TenantGrant(
                    rule.tenant, rule.role, scope_of(owner=owner, tag=rule.tag, queue=rule.queue)
                )
        return tuple(found.values())


def identity_of(provider: str, claims: Mapping[str, Any], rules: Iterable[AccessRule]) -> Identity:
    """Who verified claims name. Raises `InvalidInput`."""
    email = claims.get(EMAIL)
    usable = isinstance(email, str) and 0 < len(email) <= _MOST_EMAIL and email.isprintable()
    return Identity(
        provider,
        check_key(claims.get("iss"), "iss"),
        check_key(claims.get("sub"), "sub"),
        email if usable and claims.get(EMAIL_VERIFIED) is not False else None,
        tuple(dict.fromkeys(_facts(claims, rules))),
    )


def values_of(claims: Mapping[str, Any], claim: str) -> tuple[str, ...]:
    """The texts in a claim. `realm_access.roles` is the claim of that name, else `roles` in `realm_access`."""
    found: Any = claims.get(claim)
    if found is None and "." in claim:
        found = claims
        for part in claim.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    listed = found if isinstance(found, list) else [found]
    return tuple(each for each in listed if isinstance(each, str))


def _facts(claims: Mapping[str, Any], rules: Iterable[AccessRule]) -> Iterator[tuple[str, str]]:
    for rule in rules:
        if rule.value in _trusted(claims, rule.claim):
            yield rule.claim, rule.value
        if rule.owner_claim is not None:
            for value in _trusted(claims, rule.owner_claim)[:1]:
                try:
                    yield rule.owner_claim, check_key(value, rule.owner_claim)
                except InvalidInput:
                    continue


def _trusted(claims: Mapping[str, Any], claim: str) -> tuple[str, ...]:
    """An address that the provider has not verified may be another person's: it gives nothing."""
    if claim == EMAIL and claims.get(EMAIL_VERIFIED) is not True:
        return ()
    return values_of(claims, claim)
