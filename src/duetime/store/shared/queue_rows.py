"""Queues and tasks from the rows of either store."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from duetime.model.lane import Tier, tier_of
from duetime.model.limits import NO_QUEUE_LIMITS, QueueLimits, Rate
from duetime.model.tenant import Depth, Queue, TaskInfo
from duetime.store.rules.job_rows import Fields


def stored_queues(rows: Iterable[Fields], tenant_id: int, cap: int) -> Iterator[Queue]:
    """Queues from rows of their lanes, which are ordered by queue name."""
    for name, lanes in groupby(rows, key=lambda row: row["name"]):
        waiting = dict.fromkeys(Tier, 0)
        paused_at, capped, held_back = None, False, 0
        limits, running = NO_QUEUE_LIMITS, 0
        for row in lanes:
            paused_at, running, limits = row["paused_at"], row["live"], queue_limits(row)
            if row["tier"] is not None:
                waiting[tier_of(row["tier"])] += row["depth"]
                held_back += row["held_back"]
                capped = capped or max(row["depth"], row["held_back"]) >= cap
        depth = Depth(waiting[Tier.HIGH], waiting[Tier.MEDIUM], waiting[Tier.LOW], capped)
        yield Queue(tenant_id, str(name), paused_at is not None, paused_at, depth, limits, running, held_back)


def queue_limits(row: Fields) -> QueueLimits:
    rate, period = row["rate"], row["period"]
    if rate is None or period is None:
        return QueueLimits(row["running"])
    return QueueLimits(row["running"], Rate(rate, period))


def task_infos(rows: Iterable[Fields]) -> Iterator[TaskInfo]:
    """Tasks from rows of a task, and of some of its workers: their queues, and how many they are. Ordered by name."""
    for name, groups in groupby(rows, key=lambda row: row["name"]):
        queues, workers = zip(*((row["queues"], row["workers"]) for row in groups), strict=True)
        everywhere = not all(queues)
        together = () if everywhere else tuple(sorted({queue for served in queues for queue in served}))
        yield TaskInfo(str(name), sum(workers), together)
