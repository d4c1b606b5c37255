"""What a key may pass on: a key that it makes or rotates expires no later, and works from nowhere else, than itself.

Without this rule an expiring key could replace itself for ever, and its expiry would mean nothing. It holds for every
role, root included, and for every way to a new key. A key that never expires, and is bound to no network, passes on
what it likes. (Role and tenant are not passed on here: see `access.py`.)
"""

from datetime import datetime, timedelta
from typing import Literal

import msgspec

from duetime.errors import AccessDenied, InvalidInput
from duetime.model.access import ApiKey
from duetime.model.network import are_within

NEVER: Literal["never"] = "never"


class Issuer(msgspec.Struct, frozen=True):
    """How far the key that makes another one reaches itself."""

    expires_at: datetime | None
    networks: tuple[str, ...]


class Wish(msgspec.Struct, frozen=True):
    """What a request says of the key that it asks for; None: nothing."""

    expires_at: datetime | Literal["never"] | None = None
    networks: tuple[str, ...] | None = None


class Grant(msgspec.Struct, frozen=True):
    """What the new key gets."""

    expires_at: datetime | None
    networks: tuple[str, ...]


def grant(issuer: Issuer, wish: Wish, now: datetime, lifetime: timedelta, replaced: ApiKey | None = None) -> Grant:
    """Decide when a new key expires and where it works.

    A request that does not say so gets `lifetime` (zero: no end) at most, and the issuer's own networks; a successor
    gets the networks of the key that it replaces, and like that one never expires if it did not. Raises `AccessDenied`
    for more than the issuer has, and `InvalidInput` for a time that is past.
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
        raise InvalidInput("lies in the past", field="expires_at", remedy=f"give a later time, or {NEVER}")
    if limit is not None and (wanted is None or wanted > limit):
        raise AccessDenied(
            f"a key cannot outlive the key that makes it, which expires at {limit:%Y-%m-%dT%H:%M:%SZ}",
            field="expires_at",
            remedy="give an earlier time, or use a key that expires later",
        )
    return wanted


def _networks(issuer: Issuer, wish: Wish, replaced: ApiKey | None) -> tuple[str, ...]:
    usual = issuer.networks if replaced is None else replaced.networks
    wanted = usual if wish.networks is None else wish.networks
    if not are_within(wanted, issuer.networks):
        raise AccessDenied(
            f"a key cannot work outside the networks of the key that makes it: {', '.join(issuer.networks)}",
            field="networks",
            remedy="name networks within these, or use a key without networks",
        )
    return wanted
