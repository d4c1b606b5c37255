"""The outcomes of attempts at targets since the last report, and the totals of all nodes."""

from collections.abc import Sequence
from itertools import takewhile
from random import Random

import msgspec

from duetime.clock import monotonic
from duetime.model.attempt import Completion
from duetime.model.breaker import WINDOW, Breaker, BreakerPolicy, BreakerState, Tally, is_of_the_target, retry_delay
from duetime.model.job import decode_options
from duetime.model.lane import LaneKey
from duetime.model.outcome import Failed, HandedOver, Outcome, Succeeded
from duetime.model.run import Event

Target = tuple[int, str]
_GOOD = (Succeeded, HandedOver)
_random = Random()


def target_of(lane: LaneKey, options: bytes | None) -> Target:
    """The target of a run: its breaker key, or its task."""
    said = None if options is None else decode_options(options).breaker_key
    return lane.tenant_id, said or lane.task


class Health:
    def __init__(self, policy: BreakerPolicy) -> None:
        self._policy = policy
        self._counts: dict[Target, list[int]] = {}
        self._known: dict[Target, tuple[float, Tally]] = {}
        """The totals of all nodes, and when they were read; the latest is last."""
        self.has_failures = False
        self.open_now: frozenset[Target] = frozenset()
        """Targets whose breakers were open at the last report, or should be by what was seen here since."""

    def note(self, target: Target, *, failed: bool, retry: bool) -> None:
        counts = self._counts.get(target)
        if counts is None:
            counts = self._counts[target] = [0, 0, 0]
        counts[0] += 1
        counts[1] += failed
        counts[2] += retry
        if failed:
            self.has_failures = True
            policy = self._policy
            if policy.enabled and counts[0] >= policy.least and counts[1] > policy.share * counts[0]:
                self.open_now |= {target}  # the totals of all nodes arrive in a moment: call no more until then

    def weigh(self, target: Target, attempt: int, outcome: Outcome, completion: Completion) -> Completion:
        """Count an attempt; a retry beyond the target's share waits longer."""
        if isinstance(outcome, _GOOD):
            self.note(target, failed=False, retry=attempt > 1)
            return completion
        if not isinstance(outcome, Failed):
            return completion
        of_the_target = is_of_the_target(outcome.failure)
        self.note(target, failed=of_the_target, retry=attempt > 1)
        verdict = completion.verdict
        if not of_the_target or verdict.event is not Event.RETRY or verdict.delay is None:
            return completion
        delay = retry_delay(self._tally(target), self._policy, verdict.delay, _random)
        if delay == verdict.delay:
            return completion
        return msgspec.structs.replace(completion, verdict=msgspec.structs.replace(verdict, delay=delay))

    def take(self) -> list[Tally]:
        """What to report. Counting starts over, and counts older than the window are dropped."""
        for target in list(takewhile(lambda target: not self._is_recent(target), self._known)):
            del self._known[target]
        counts, self._counts = self._counts, {}
        self.has_failures = False
        return [Tally(*target, *numbers) for target, numbers in counts.items()]

    def put_back(self, tallies: Sequence[Tally]) -> None:
        """A report did not arrive."""
        for item in tallies:
            counts = self._counts.setdefault((item.tenant_id, item.target), [0, 0, 0])
            for place, number in enumerate((item.tried, item.failed, item.retried)):
                counts[place] += number

    def learn(self, breakers: Sequence[Breaker]) -> None:
        """The totals of all nodes, and which breakers are open."""
        self.open_now = frozenset((item.tenant_id, item.target) for item in breakers if item.state is BreakerState.OPEN)
        now = monotonic()
        for item in breakers:
            target = item.tenant_id, item.target
            self._known.pop(target, None)
            self._known[target] = now, Tally(*target, item.tried, item.failed, item.retried)

    def _is_recent(self, target: Target) -> bool:
        return target in self._known and monotonic() - self._known[target][0] < WINDOW.total_seconds()

    def _tally(self, target: Target) -> Tally:
        """What is known about a target: all nodes at the last report, and this one since."""
        known = self._known[target][1] if self._is_recent(target) else Tally(*target, 0)
        since = self._counts.get(target, (0, 0, 0))
        return Tally(*target, known.tried + since[0], known.failed + since[1], known.retried + since[2])
