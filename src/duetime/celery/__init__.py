"""Celery's names on duetime, so that a project moves task by task.

    import duetime
    from duetime.celery import Celery

    jobs = duetime.App()          # workers load this: duetime worker shop.jobs:jobs
    app = Celery("shop", jobs)    # tasks that have not moved yet keep their decorator and their callers

    @app.task(bind=True, max_retries=5)
    def charge(self, order): ...

    charge.delay(4711)

A task of this layer is a task of duetime with another interface: the same worker runs both kinds. What duetime does
differently, or not at all, raises an error that names its own way; nothing is ignored silently. Celery itself is not
needed. `docs/from-celery.md` is the guide.
"""

from typing import Any

from duetime.celery.app import Celery, shared_task, signature
from duetime.celery.beat import crontab, schedule
from duetime.celery.canvas import Signature, chain, chord, group
from duetime.celery.results import AsyncResult, GroupResult
from duetime.celery.task import CeleryTask, MaxRetriesExceededError, Retry

__all__ = [
    "AsyncResult",
    "Celery",
    "CeleryTask",
    "GroupResult",
    "MaxRetriesExceededError",
    "Retry",
    "Signature",
    "chain",
    "chord",
    "crontab",
    "group",
    "schedule",
    "shared_task",
    "signature",
]

_ELSEWHERE = {
    "Ignore": "raise duetime.Cancel(…)",
    "Reject": "raise duetime.Snooze(…) to run again later, or duetime.GiveUp(…) to end the run",
    "SoftTimeLimitExceeded": "no exception interrupts a function: check duetime.current_context().cancelled",
    "Task": "tasks are functions: share code with a decorator of your own, or an ordinary function",
    "chunks": "app.submit_many([task.bind(…), …])",
    "current_app": "import your own app",
    "current_task": "duetime.current_context()",
    "get_task_logger": "logging.getLogger(__name__), or duetime.current_context().logger, whose lines the run keeps",
    "signals": "app.on_start and app.on_failure of duetime.App",
    "solar": "duetime has no schedules by the sun: compute the time in a daily task, and submit with run_at",
    "states": "duetime.RunState",
    "subtask": "task.s(…)",
}


def __getattr__(name: str) -> Any:
    if name in _ELSEWHERE:
        raise ImportError(f"duetime.celery has no {name!r}: {_ELSEWHERE[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
