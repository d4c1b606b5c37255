"""The executor of targets: calls and commands, each in an asyncio task of its own on the event loop."""

import asyncio

from duetime.model.failure import Failure, FailureClass
from duetime.model.outcome import Failed, Outcome
from duetime.targets.runner import TargetRunner
from duetime.worker.executor import Finished
from duetime.worker.running_attempt import Running


class TargetExecutor:
    def __init__(self, runner: TargetRunner, finished: Finished) -> None:
        self._runner = runner
        self._finished = finished
        self._loop = asyncio.get_running_loop()
        self._attempts: set[asyncio.Task[None]] = set()

    def start(self, running: Running) -> None:
        attempt = self._loop.create_task(self._attempt(running))
        self._attempts.add(attempt)
        attempt.add_done_callback(self._attempts.discard)

    def stop(self, running: Running) -> None:
        # One that has not taken its first step looks for itself: asyncio would never start it, and it would not end.
        if running.task is not None:
            running.task.cancel()

    def close(self) -> None:
        pass

    async def _attempt(self, running: Running) -> None:
        running.task = asyncio.current_task()
        try:
            if running.stop is not None:
                raise asyncio.CancelledError
            running.begun = True
            outcome: Outcome = await self._runner.run(running.claimed, running.lane)
        except asyncio.CancelledError:
            # Why it was stopped is known to whoever did it, and weighs more than this.
            outcome = Failed(Failure(FailureClass.ERROR, "it was stopped"))
        running.task = None
        self._finished(running, outcome)
