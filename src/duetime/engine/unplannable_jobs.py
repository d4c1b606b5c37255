"""Jobs that this node skips because it cannot plan them, while another node may.

They stay due in the database. This node ignores them for a while, at first briefly, then for longer, so that they
neither keep it busy nor hide the due jobs behind them. It retries: file descriptors and memory become available again,
and jobs are edited.
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
        """When to retry a job, and the length of the pause before that."""
        self._log_at = 0.0

    def add(self, passed: Iterable[PassedBy]) -> None:
        now, example = monotonic(), None
        for example in passed:
            until, pause = self._jobs.get(example.job_id, (0.0, _FIRST_PAUSE / 2))
            if until <= now:  # of two concurrent batches, the second may have read it before the first was done
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
        """The jobs that are skipped now."""
        if not self._jobs:
            return []
        now = monotonic()
        # A job that was planned since then has not come back, and starts over next time.
        for job_id in [job_id for job_id, (until, _) in self._jobs.items() if now > until + _FORGET_AFTER]:
            del self._jobs[job_id]
        return [job_id for job_id, (until, _) in self._jobs.items() if now < until]
