"""The canary: each node submits a job of its own every minute and measures how long each stage of its path takes.

The job is due beyond the look-ahead, so it must be stored, fired by a scanner, claimed and completed like any other.
Its tenant has no name, no keys, and appears in no list. All nodes share one lane, and any node completes the canaries
that it finds there. The canaries of a dead node are therefore not left behind. Each node then looks up the result of
its own canary.

A canary that is not complete after a minute has failed. If canaries stop completely, the time of the last success stops
advancing.
"""

import logging
from datetime import datetime, timedelta
from uuid import UUID

from duetime.engine.intake import prepare
from duetime.errors import NotFound
from duetime.ids import new_id, once_run_id, show
from duetime.model.attempt import Run
from duetime.model.completion import PLAIN, complete
from duetime.model.firing import LOOK_AHEAD
from duetime.model.job import INTERNAL_TENANT
from duetime.model.run import RunState
from duetime.model.schedule import Once
from duetime.model.worker import WorkerInfo
from duetime.store.protocol.store import Store
from duetime.telemetry.meters import Meters

log = logging.getLogger("duetime.canary")

TASK = QUEUE = "duetime.canary"
_TIMEOUT = timedelta(minutes=1)
_AT_ONCE = 10
_SOON, _LATER = 0.02, 0.25
_LEASE = timedelta(minutes=1)


class Canary:
    def __init__(
        self, store: Store, meters: Meters, *, interval: timedelta, ahead: timedelta = LOOK_AHEAD + timedelta(seconds=1)
    ) -> None:
        self._store = store
        self._meters = meters
        self._interval = interval
        self._ahead = ahead
        self._worker_id: UUID | None = None
        self._claim_no = 0
        self._sent: tuple[UUID, datetime, datetime] | None = None
        """The run in progress: its id, when it was submitted, and when it is due."""
        self._begun = False

    async def tick(self) -> float:
        if not self._begun:
            self._begun = True
            return self._interval.total_seconds()  # a node that has just started has more urgent work
        if self._sent is None:
            return await self._submit()
        run_id, submitted, due = self._sent
        now = await self._store.now()
        if now < due:
            return (due - now).total_seconds()
        await self._serve()
        run = await self._find(run_id)
        if run is not None and run.state.is_end:
            await self._succeeded(run, submitted)
        elif now - due > _TIMEOUT:
            self._failed(run_id, "it was not fired" if run is None else f"it is {run.state.name}")
        else:
            return _SOON if now - due < timedelta(seconds=1) else _LATER
        await self._leave()
        return max(0.0, (self._interval - (now - submitted)).total_seconds())

    async def _submit(self) -> float:
        now = await self._store.now()
        due, job_id = now + self._ahead, new_id()
        job = prepare(
            task=TASK,
            args={},
            max_payload=100,
            tenant_id=INTERNAL_TENANT,
            schedule=Once(due),
            queue=QUEUE,
            timeout=timedelta(seconds=30),
            job_id=job_id,
        )
        await self._store.intake.submit(INTERNAL_TENANT, [job])
        self._sent = (once_run_id(job_id, due), now, due)
        return self._ahead.total_seconds()

    async def _serve(self) -> None:
        """Claim and complete the canaries that wait, from this node or another."""
        lanes = await self._store.claims.lanes()
        lane_id = next((lane.id for lane in lanes if lane.key.tenant_id == INTERNAL_TENANT), None)
        if lane_id is None:
            return  # nothing has been fired yet
        if self._worker_id is None:
            info = WorkerInfo(new_id(), "canary", (TASK,), (QUEUE,), _AT_ONCE, INTERNAL_TENANT)
            await self._store.leases.register(info, _LEASE * 2)
            self._worker_id, self._claim_no = info.id, 1
        # The same claim number is used until an answer arrives: it finds the runs that an unanswered claim took.
        claimed = await self._store.claims.claim(self._worker_id, self._claim_no, [(lane_id, _AT_ONCE)])
        if claimed:
            done = [complete(run, PLAIN, None) for run in claimed]
            await self._store.completions.complete(self._worker_id, done, [self._claim_no])
        self._claim_no += 1

    async def _find(self, run_id: UUID) -> Run | None:
        try:
            return await self._store.reads.run(INTERNAL_TENANT, run_id)
        except NotFound:
            return None

    async def _succeeded(self, run: Run, submitted: datetime) -> None:
        if run.state is not RunState.SUCCEEDED or run.started_at is None or run.finished_at is None:
            self._failed(run.id, f"it is {run.state.name}")
            return
        stages = self._meters.canary_stages
        stages["start"].add(max(0.0, ((run.first_started_at or run.started_at) - run.due_at).total_seconds()))
        stages["complete"].add(max(0.0, (run.finished_at - run.started_at).total_seconds()))
        stages["whole"].add(max(0.0, (run.finished_at - run.due_at).total_seconds()))
        self._meters.canary["succeeded"] += 1
        self._meters.canary_succeeded_at = run.finished_at.timestamp()
        self._sent = None

    def _failed(self, run_id: UUID, why: str) -> None:
        log.error("%s, the canary of this node: %s", show("run", run_id), why)
        self._meters.canary["failed"] += 1
        self._sent = None

    async def _leave(self) -> None:
        if self._worker_id is not None:
            worker_id, self._worker_id = self._worker_id, None
            await self._store.leases.leave(worker_id)
