"""The executor of targets: calls and commands, each in its own asyncio task on the event loop."""

import asyncio

from duetime.clock import SystemClock
from duetime.model.failure import Failure, FailureClass
from duetime.model.outcome import Failed, Outcome
from duetime.targets.runner import TargetRunner
from duetime.worker.executor import Finished
from duetime.worker.running_attempt import Running, Stop


def _goes_on(running: Running) -> bool:
    """Whether another worker goes on with what this attempt has started, although it was stopped here."""
    return running.stop is Stop.LEASE_LOST or (running.stop is Stop.SHUTDOWN and running.may_start_again)


class TargetExecutor:
    def __init__(self, runner: TargetRunner, finished: Finished) -> None:
        self._runner = runner
        self._finished = finished
        self._loop = asyncio.get_running_loop()
        self._attempts: set[asyncio.Task[None]] = set()
        runner.begin()

    def start(self, running: Running) -> None:
        attempt = self._loop.create_task(self._attempt(running))
        self._attempts.add(attempt)
        attempt.add_done_callback(self._attempts.discard)

    def stop(self, running: Running) -> None:
        # A task that has not started checks `stop` itself: asyncio would never start a cancelled one, and the attempt
        # would not end.
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
            outcome: Outcome = await self._runner.run(
                running.claimed,
                running.lane,
                log=lambda text: running.attempt_log.add(SystemClock().now(), "INFO", text),
                goes_on=lambda: _goes_on(running),
            )
        except asyncio.CancelledError:
            # The caller of `stop` knows the reason, which takes precedence over this.
            outcome = Failed(Failure(FailureClass.ERROR, "it was stopped"))
        running.task = None
        self._finished(running, outcome)
