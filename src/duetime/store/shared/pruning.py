"""Pruning of rows that have no part in the path of a run."""

from datetime import datetime

from duetime.store.shared.streams import CHANGED_RECENTLY
from duetime.store.shared.transaction import Statements


async def prune_bystanders(
    statements: Statements, now: datetime, *, dead_letters: datetime, deleted_jobs: datetime, batch: int
) -> int:
    """Remove sessions, login links and streams that are over, and dead letters and deleted jobs from before these
    moments."""
    await statements.execute("prune_streams", since=now - CHANGED_RECENTLY)
    removed = await statements.execute("prune_sessions", before=now, batch=batch)
    removed += await statements.execute("prune_login_links", before=now, batch=batch)
    removed += await statements.execute("prune_dead_letters", before=dead_letters, batch=batch)
    return removed + await statements.execute("prune_deleted_jobs", before=deleted_jobs, batch=batch)
