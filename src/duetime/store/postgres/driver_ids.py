"""Ids as the driver of PostgreSQL returns them: UUIDs like the standard ones, but implemented in C. A worker hashes the
id of a run eight times, and the driver sends its own ids for a third less."""

from collections.abc import Callable
from typing import cast
from uuid import UUID

from asyncpg.pgproto import pgproto

driver_id = cast(Callable[[bytes], UUID], pgproto.UUID)
"""The id with these 16 bytes."""
