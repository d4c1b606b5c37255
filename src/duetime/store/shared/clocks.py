"""What nodes have seen of the database's clock, and what becomes of rows from before it was put back."""

from datetime import datetime, timedelta

from duetime.clock import monotonic
from duetime.store.protocol.service import ClockSeen, Rewind
from duetime.store.shared.transaction import SharedRole, found

_SHIFT_EVERY = 5.0
_SHIFT_SHARE = 0.01
"""The largest share of the time that it takes: it reads all limits, and a tenant may have one for each customer."""


class ClockRole(SharedRole):
    _shift_at = 0.0

    async def clock_seen(self) -> ClockSeen:
        row = found(await self.transactions.row("clock_seen"))
        rewind = None
        if row["rewound_at"] is not None:
            rewind = Rewind(row["rewound_at"], row["rewound_from"], row["rewound_to"])
        return ClockSeen(
            row["at"],
            row["seen_at"],
            row["stepped_at"],
            row["trusted_at"],
            row["served_at"],
            row["served_since"],
            row["readings"],
            rewind,
        )

    async def keep_clock_seen(self, seen_at: datetime, *, stepped: bool) -> int:
        return int(await self.transactions.value("keep_clock_seen", seen_at=seen_at, stepped=stepped))

    async def keep_rewind(self, rewound_at: datetime, rewound_from: datetime) -> None:
        await self.transactions.execute("keep_rewind", rewound_at=rewound_at, rewound_from=rewound_from)

    async def keep_trusted(self, trusted_at: datetime, seen_at: datetime) -> None:
        await self.transactions.execute("keep_trusted", trusted_at=trusted_at, seen_at=seen_at)

    async def keep_served(self, gap: timedelta) -> None:
        await self.transactions.execute("keep_served", gap=gap)

    async def shift_back(self) -> None:
        # Each in a transaction of its own: none holds what another waits for.
        for statement in ("shift_back", "shift_cursors", "shift_limits"):
            await self.transactions.execute(statement)
        self.ready.announce(await self.transactions.execute("advance_lines"))

    async def shift_back_in_turn(self) -> None:
        """Call `shift_back` every few seconds: the clock may have stepped back while no process watched it."""
        began = monotonic()
        if began >= self._shift_at:
            self._shift_at = began + _SHIFT_EVERY
            await self.shift_back()
            self._shift_at = monotonic() + max(_SHIFT_EVERY, (monotonic() - began) / _SHIFT_SHARE)
