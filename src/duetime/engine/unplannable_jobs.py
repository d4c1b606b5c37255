"""Jobs that this node passes by: it cannot plan them, and another node may.

They stay due in the database. This node does not look at them again for a while, first for a short one, then for
longer, so that they neither keep it busy nor hide what is due behind them. It tries again: descriptors and memory come
back, and jobs are edited.
"""

import logging
from collections.abc import Iterable
from uuid import UUID

from duetime.clock import monotonic
from duetime.ids import show
from duetime.model.firing import PassedBy

log = logging.getLogger("duetime.scanner")

_FIRST_PAUSE = 2.0
_LONGEST_PAUSE = 60.0
_LOG_EVERY = 60.0
_FORGET_AFTER = 2 * _LONGEST_PAUSE


class UnplannableJobs:
    def __init__(self) -> None:
        self._jobs: dict[UUID, tuple[float, float]] = {}
        """When to look at a job again, and how long the pause before that was."""
        self._log_at = 0.0

    def add(self, passed: Iterable[PassedBy]) -> None:
        now, example = monotonic(), None
        for example in passed:
            until, pause = self._jobs.get(example.job_id, (0.0, _FIRST_PAUSE / 2))
            if until <= now:  # of two batches under way at once, the second may have seen it before the first was over
                pause = min(_LONGEST_PAUSE, 2 * pause)
                self._jobs[example.job_id] = (now + pause, pause)
        if example is not None and now >= self._log_at:
            self._log_at = now + _LOG_EVERY
            log.error(
                "this node cannot plan %d due jobs and leaves them to other nodes, for example %s: %s",
                len(self.waiting()),
                show("job", example.job_id),
                example.problem,
            )

    def waiting(self) -> list[UUID]:
        """The jobs that are not looked at now."""
        if not self._jobs:
            return []
        now = monotonic()
        # One that could be planned since then has not come back, and begins anew the next time.
        for job_id in [job_id for job_id, (until, _) in self._jobs.items() if now > until + _FORGET_AFTER]:
            del self._jobs[job_id]
        return [job_id for job_id, (until, _) in self._jobs.items() if now < until]
