"""What a store tells about the load of queues, for autoscalers and metrics.

The cost of each reading is bounded, however many jobs, runs and tenants there are. Readings of all tenants serve all
callers of a node.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

from duetime.model.demand import Activity, Coming, LaneDepth, QueueAhead


class Demand(Protocol):
    async def activity(self, window: timedelta) -> Activity:
        """What ended in the window before now, and what runs, by tenant and queue. Reads history from its newest row,
        up to a bound."""

    async def coming(self, ahead: timedelta) -> Coming:
        """The jobs of all tenants that fire within this time, except those that a rate of their tenant holds back. In
        minutes in which many fire, a random sample."""

    async def queue_ahead(self, tenant_id: int, queue: str, since: datetime, step: timedelta, steps: int) -> QueueAhead:
        """The runs of a queue that wait, with those due since a moment, and the runs that become ready in each of
        `steps` intervals from now on."""

    async def lane_depths(self, lane_ids: Sequence[int], since: datetime, cap: int) -> list[LaneDepth]:
        """How many due runs wait in each of these lanes, up to `cap`, with those due since a moment. Lanes without any
        are omitted."""
