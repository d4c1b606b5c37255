"""Jobs that run elsewhere and report here."""

from datetime import timedelta
from typing import Protocol

from duetime.model.checkin import CheckIn, Ping, StoredCheckIn


class CheckIns(Protocol):
    async def put_checkin(self, tenant_id: int, check: CheckIn, token_hash: bytes, *, paused: bool) -> bool:
        """Create a check-in with the hash of its token, or replace what an existing one expects: it keeps its token
        and its state. Whether it was created."""

    async def checkins(self, tenant_id: int, name: str | None = None) -> list[StoredCheckIn]:
        """The check-ins of a tenant, or one of them, by name."""

    async def checkin(self, tenant_id: int, name: str) -> StoredCheckIn:
        """Raises `NotFound`."""

    async def pause_checkin(self, tenant_id: int, name: str, *, paused: bool) -> StoredCheckIn:
        """Pause or resume a check-in. One that resumes expects its next ping from now on. Raises `NotFound`."""

    async def rotate_checkin(self, tenant_id: int, name: str, token_hash: bytes) -> StoredCheckIn:
        """Give a check-in another token: the one before is not known any more. Raises `NotFound`."""

    async def delete_checkin(self, tenant_id: int, name: str) -> None:
        """Raises `NotFound`."""

    async def has_checkin(self, token_hash: bytes) -> bool:
        """Whether a token with this hash belongs to a check-in."""

    async def ping(self, token_hash: bytes, ping: Ping, exit_code: int | None, note: str | None) -> bool:
        """Record a ping; false if no check-in has this token."""

    async def take_checkins(self, period: timedelta, limit: int = 100) -> list[StoredCheckIn]:
        """Reserve check-ins, of any tenant, that were pinged or may be late: no other node gets them for `period`."""

    async def keep_checkin(self, stored: StoredCheckIn, seen: int) -> bool:
        """Store the judgement on a check-in, except `told`; false if its version is not `seen` any more. One that was
        pinged or changed since it was read keeps what that brought, and is judged again."""

    async def mark_checkin_notified(self, stored: StoredCheckIn) -> None:
        """Record that the notifications about this version are stored, and when it is to be judged again."""
