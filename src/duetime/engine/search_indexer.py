"""The search indexer adds what new jobs are found by to the search index, off the hot path.

It follows the labels in the order of their jobs' ids, which is nearly the order in which they were stored. A
transaction that took longer stores labels behind the place that was reached. So four readers follow one another, at the
newest label and at ids that are a minute, an hour and a day old: each adds what the one before could not see, and reads
as rarely as fits that age. A job is found within seconds after its submission; a job from a transaction that was open
for a minute, about an hour later at most.

One node does this at a time. How far it has come is in the store; doing a part twice adds nothing.
"""

from datetime import datetime, timedelta
from math import inf
from uuid import UUID

import msgspec

from duetime.clock import monotonic
from duetime.ids import new_id
from duetime.store.protocol.store import Store
from duetime.store.shared.service_rows import FIRST_ID, LAST_ID

BATCH = 500
_INTERVAL = 1.0
_READERS = (
    (None, _INTERVAL),
    (timedelta(minutes=1), 5.0),
    (timedelta(hours=1), 60.0),
    (timedelta(days=1), 600.0),
)
"""Two values for each reader: it reads up to ids of this age, and it pauses this many seconds unless a batch was
full."""
_OVERLAP = timedelta(seconds=5)
"""How far behind the newest label the first reader begins again."""
_LEASE = timedelta(seconds=60)
_KEEP_EVERY = 20.0
"""Seconds after which the lease is renewed, and the places are kept if nothing happens."""
_PRUNE_EVERY = 60.0
_EARLY = 0.5
"""Seconds by which a read may be early, so that a tick that comes a moment too soon does not skip it."""


_FIRST_TERM = (0, "", "")


class Places(msgspec.Struct, frozen=True):
    """How far each reader has come."""

    readers: tuple[UUID, ...] = (FIRST_ID,) * len(_READERS)


class SearchIndexer:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._holder = new_id()
        self._places: Places | None = None
        """How far the readers have read. None: another node holds the lease, or this node has not asked yet."""
        self._kept_at = 0.0
        self._read_at = [-inf] * len(_READERS)
        """When each reader has read to its end."""
        self._pruned_at = monotonic()
        self._pruned = _FIRST_TERM
        """The last term that was checked for jobs that still have it. It is not stored: it may belong to an erased
        tenant."""

    async def tick(self) -> float:
        if self._places is None:
            body = await self._store.search.take_search(self._holder, _LEASE)
            if body is None:
                return _KEEP_EVERY
            self._places, self._kept_at = msgspec.json.decode(body, type=Places) if body else Places(), monotonic()
            self._read_at = [-inf] * len(_READERS)
        places, found, more = await self._read(self._places)
        if monotonic() > self._pruned_at + _PRUNE_EVERY and not more:
            self._pruned = await self._store.search.prune_terms(self._pruned, BATCH) or _FIRST_TERM
            self._pruned_at = monotonic()
        self._places = places
        if found or monotonic() > self._kept_at + _KEEP_EVERY:
            if not await self._store.search.keep_search(self._holder, msgspec.json.encode(places), _LEASE):
                self._places = None
            self._kept_at = monotonic()
        return 0.0 if more else _INTERVAL

    async def _read(self, places: Places) -> tuple[Places, bool, bool]:
        """Read one batch with each reader. Returns the new places, whether labels were found, and whether there are
        more."""
        now = await self._store.now()
        readers, found, more = list(places.readers), False, False
        for number, (age, interval) in enumerate(_READERS):
            end = LAST_ID if age is None else _id_at(now - age)
            if readers[number] < end and monotonic() >= self._read_at[number] + interval - _EARLY:
                seen, last = await self._store.search.index_labels(readers[number], end, BATCH)
                found |= seen > 0
                more |= last is not None
                if last is None:
                    self._read_at[number] = monotonic()
                readers[number] = last or (end if age is not None else max(readers[number], _id_at(now - _OVERLAP)))
        return Places(tuple(readers)), found, more


def _id_at(moment: datetime) -> UUID:
    """Below all ids that are made from this moment on, as far as clocks agree."""
    return UUID(int=int(moment.timestamp() * 1000) << 80)
