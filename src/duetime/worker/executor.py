"""Executors: one attempt in one place, from its arguments to its outcome.

Whoever starts an attempt gets exactly one call of `finished`, on the event loop, when it has really ended. An attempt
that was asked to stop ends as its reason says, whatever the function did about it.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from duetime.model import json
from duetime.model.attempt import RunNote
from duetime.model.completing import PLAIN
from duetime.model.failure import Failure, FailureClass
from duetime.model.outcome import Failed, Outcome
from duetime.worker import outcomes
from duetime.worker.context import Context, current
from duetime.worker.notes import Notes
from duetime.worker.running import Running
from duetime.worker.source import Source

Finished = Callable[[Running, Outcome], None]


class Executor(Protocol):
    def start(self, running: Running) -> None: ...

    def stop(self, running: Running) -> None:
        """Ask the attempt to end, as its place allows; `running.stop` says why."""

    def close(self) -> None:
        """Let go of what the place holds; attempts still under way are abandoned."""


_BEGUN = object()


class LoopExecutor:
    """Async functions, as tasks of the event loop."""

    def __init__(self, source: Source, notes: Notes, finished: Finished, max_result: int) -> None:
        self._source = source
        self._notes = notes
        self._finished = finished
        self._max_result = max_result
        self._loop = asyncio.get_running_loop()

    def start(self, running: Running) -> None:
        running.prepare(self._context)
        running.task = self._loop.create_task(self._attempt(running))

    def stop(self, running: Running) -> None:
        # A task that is cancelled before its first step never takes it: it looks for itself when it begins.
        if running.task is not None and running.handle is _BEGUN:
            running.task.cancel()

    def close(self) -> None:
        pass

    async def _attempt(self, running: Running) -> None:
        definition = running.definition
        running.handle = _BEGUN
        try:
            if running.stop is not None:
                raise asyncio.CancelledError
            arguments = json.decode(running.claimed.args)
            current.set(running.context)
            if definition.context_name is not None:
                arguments[definition.context_name] = running.context()
            value = await definition.function(**arguments)
            context = running.context_if_made
            if isinstance(context, Context) and context.completed_in_transaction:
                outcome: Outcome = _not_committed()
            elif value is None:
                outcome = PLAIN
            else:
                outcome = outcomes.from_value(value, running.attempt_log, self._max_result)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            outcome = outcomes.from_exception(error)
        self._finished(running, outcome)

    def _context(self, running: Running) -> Context:
        claimed, worker_id = running.claimed, running.session.id

        async def complete(connection: object, result: bytes | None) -> None:
            await self._source.complete_within(
                connection, worker_id, claimed.run_id, claimed.fence, result, running.logs()
            )

        async def save(note: RunNote) -> None:
            await self._notes.save(worker_id, note)

        def remember(note: RunNote) -> None:
            self._notes.remember(worker_id, note)

        return Context(claimed, running.lane.task, running.lane.queue, running.attempt_log, remember, save, complete)


def _not_committed() -> Outcome:
    """A run that completed itself is gone from the store, and this is refused; if it is still there, the task's
    transaction was rolled back, and its effect with it."""
    return Failed(Failure(FailureClass.ERROR, "the run was completed inside a transaction that did not commit"))
