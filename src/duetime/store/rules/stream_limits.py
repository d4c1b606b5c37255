"""A queue has limits or goes through a stream, not both: limits are counted by claims, and carried runs have none."""

from duetime.errors import InvalidInput
from duetime.model.limits import QueueLimits


def are_set(limits: QueueLimits) -> bool:
    return limits.running is not None or limits.rate is not None


def limited_queue() -> InvalidInput:
    """Refuses a stream for a queue with limits."""
    return InvalidInput(
        "the queue has a limit on running runs or on starts, which a stream does not enforce",
        field="stream",
        remedy="remove the limits first: duetime queues limit QUEUE --running none --rate none",
    )


def streamed_queue(limits: QueueLimits) -> InvalidInput:
    """Refuses limits for a queue that goes through a stream."""
    return InvalidInput(
        "the queue goes through a stream, which does not enforce limits",
        field="rate" if limits.running is None else "running",
        remedy="limit the workers' slots, or let the queue go through the store: duetime queues set QUEUE --store",
    )
