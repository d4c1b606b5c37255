"""Progress, logs and checkpoints on their way to the store.

Progress is cheap: the latest report of each run is sent about once a second, with the lines logged meanwhile. A
checkpoint is durable when saving it returns.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from uuid import UUID

import msgspec

from duetime.errors import Conflict, LeaseLost, StoreRejected, StoreUnavailable, reason_of
from duetime.ids import show
from duetime.model.attempt import RunNote
from duetime.model.dependency import Parent
from duetime.process.loop import retry_until_available
from duetime.wire.workers import MOST_RUNS
from duetime.worker.context import Context
from duetime.worker.running_attempt import Running
from duetime.worker.source import Source

INTERVAL = 1.0
TIMEOUT = 10.0
"""Seconds that a task waits for an unavailable database before its attempt fails."""

log = logging.getLogger("duetime.worker")


class ProgressReports:
    def __init__(self, source: Source, running: Callable[[], Iterable[Running]]) -> None:
        self._source = source
        self._running = running
        self._latest: dict[tuple[UUID, UUID], RunNote] = {}

    def remember(self, worker_id: UUID, report: RunNote) -> None:
        self._latest[worker_id, report.run_id] = report

    def forget(self, worker_id: UUID, run_id: UUID) -> None:
        if self._latest:
            self._latest.pop((worker_id, run_id), None)

    async def save(self, worker_id: UUID, report: RunNote, *, in_transaction: bool = False) -> None:
        held: frozenset[UUID] = frozenset()
        if in_transaction:
            held = await retry_until_available(lambda: self._source.held_in_transactions([report.run_id]), TIMEOUT)
        if held:
            raise Conflict(
                "the task is completing the run in a transaction, which locks it: the checkpoint cannot be saved",
                remedy="save checkpoints before ctx.complete",
            )
        answer = await retry_until_available(lambda: self._source.note(worker_id, [report]), TIMEOUT)
        if answer.refused:
            raise LeaseLost("the run now belongs to another worker: the checkpoint was not saved")

    async def parents(self, worker_id: UUID, run_id: UUID) -> list[Parent]:
        """The parents of a run, read with the same retries."""
        return await retry_until_available(lambda: self._source.parents(worker_id, run_id), TIMEOUT)

    async def tick(self) -> float:
        self._add_logs()
        latest, self._latest = self._latest, {}
        for running in self._running():
            if _in_transaction(running):
                # The run is complete: its progress is useless, and the reports of all other runs would wait for its
                # transaction.
                latest.pop((running.session.id, running.claimed.run_id), None)
        by_worker: dict[UUID, list[RunNote]] = {}
        for (worker_id, _), report in latest.items():
            by_worker.setdefault(worker_id, []).append(report)
        try:
            for worker_id, reports in by_worker.items():
                for start in range(0, len(reports), MOST_RUNS):
                    await self._send(worker_id, reports[start : start + MOST_RUNS])
        except StoreUnavailable:
            self._put_back(latest)
            raise
        return INTERVAL

    async def _send(self, worker_id: UUID, reports: list[RunNote]) -> None:
        """Send reports; a refused one does not affect the others."""
        try:
            await self._source.note(worker_id, reports)
        except StoreRejected as error:
            if len(reports) == 1:
                log.warning(
                    "%s: its progress could not be stored: %s", show("run", reports[0].run_id), reason_of(error)
                )
                return
            middle = len(reports) // 2
            await self._send(worker_id, reports[:middle])
            await self._send(worker_id, reports[middle:])

    def _put_back(self, unsent: Mapping[tuple[UUID, UUID], RunNote]) -> None:
        """Put back unsent reports of runs still in progress; newer reports take precedence."""
        for running in self._running():
            running.log_lines_sent = 0  # send its log lines once more
            report = unsent.get((running.session.id, running.claimed.run_id))
            if report is not None and report.fence == running.claimed.fence:
                self._latest.setdefault((running.session.id, report.run_id), report)

    def _add_logs(self) -> None:
        for running in self._running():
            if _in_transaction(running):
                continue
            written = 0 if running.log is None else running.log.written
            if written > running.log_lines_sent and running.log is not None:
                running.log_lines_sent = written
                claimed = running.claimed
                place = running.session.id, claimed.run_id
                report = self._latest.get(place) or RunNote(claimed.run_id, claimed.fence)
                self._latest[place] = msgspec.structs.replace(report, logs=running.log.encoded())


def _in_transaction(running: Running) -> bool:
    context = running.context_if_made
    return isinstance(context, Context) and context.in_transaction
