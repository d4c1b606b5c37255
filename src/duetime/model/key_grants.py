"""What a key may delegate: a key that it creates or rotates expires no later, and is accepted from no other networks,
than itself.

Without this rule an expiring key could replace itself forever, and its expiry would mean nothing. It applies to every
role, root included, and to every way to a new key. A key that never expires, and is bound to no network, may delegate
anything. (Role and tenant are checked elsewhere: see `access.py`.)
"""

from datetime import datetime, timedelta
from typing import Literal

import msgspec

from duetime.errors import AccessDenied, InvalidInput
from duetime.model.access import ApiKey
from duetime.model.network import are_within

NEVER: Literal["never"] = "never"


class Issuer(msgspec.Struct, frozen=True):
    """The limits of the key that creates another one."""

    expires_at: datetime | None
    networks: tuple[str, ...]


class Wish(msgspec.Struct, frozen=True):
    """What a request asks for the new key; None: not given."""

    expires_at: datetime | Literal["never"] | None = None
    networks: tuple[str, ...] | None = None


class Grant(msgspec.Struct, frozen=True):
    """What the new key gets."""

    expires_at: datetime | None
    networks: tuple[str, ...]


def grant(issuer: Issuer, wish: Wish, now: datetime, lifetime: timedelta, replaced: ApiKey | None = None) -> Grant:
    """Decide when a new key expires and from where it is accepted.

    By default it gets `lifetime` (zero: no end) at most, and the issuer's own networks. A successor gets the networks
    of the key that it replaces, and never expires if that one did not. Raises `AccessDenied` for more than the issuer
    has, and `InvalidInput` for a time in the past.
    """
    return Grant(_expiry(issuer, wish, now, lifetime, replaced), _networks(issuer, wish, replaced))


def _expiry(issuer: Issuer, wish: Wish, now: datetime, lifetime: timedelta, replaced: ApiKey | None) -> datetime | None:
    limit = issuer.expires_at
    if wish.expires_at is None:
        endless = not lifetime or (replaced is not None and replaced.expires_at is None)
        usual = None if endless else now + lifetime
        return usual if limit is None else min(usual or limit, limit)
    wanted = None if wish.expires_at == NEVER else wish.expires_at
    if wanted is not None and wanted <= now:
        raise InvalidInput("is in the past", field="expires_at", remedy=f"set a later time, or {NEVER}")
    if limit is not None and (wanted is None or wanted > limit):
        raise AccessDenied(
            f"a key cannot outlive the key that creates it, which expires at {limit:%Y-%m-%dT%H:%M:%SZ}",
            field="expires_at",
            remedy="set an earlier time, or use a key that expires later",
        )
    return wanted


def _networks(issuer: Issuer, wish: Wish, replaced: ApiKey | None) -> tuple[str, ...]:
    usual = issuer.networks if replaced is None else replaced.networks
    wanted = usual if wish.networks is None else wish.networks
    if not are_within(wanted, issuer.networks):
        raise AccessDenied(
            f"a key cannot have networks outside those of the key that creates it: {', '.join(issuer.networks)}",
            field="networks",
            remedy="name networks within these, or use a key without networks",
        )
    return wanted
