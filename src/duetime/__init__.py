"""duetime: a durable, multi-tenant job scheduler.

app = duetime.App()

@app.task(retries=3, timeout="30s")
async def send_report(to: str) -> str: ...

await send_report.submit(to="ops@example.com")
"""

from typing import TYPE_CHECKING, Any

from duetime.app import App
from duetime.clock import ManualClock
from duetime.errors import (
    AccessDenied,
    CalendarInUse,
    Conflict,
    DuetimeError,
    InvalidInput,
    JobBusy,
    KeyInFlight,
    KeyReused,
    LeaseLost,
    NotFound,
    QuotaExceeded,
    SchemaMismatch,
    ServerUnavailable,
    SettingsError,
    StaleVersion,
    StoreError,
    StoreLocked,
    StoreUnavailable,
)
from duetime.graphing import GraphPlan
from duetime.model.attempt import Run
from duetime.model.calendar import Calendar
from duetime.model.dependency import Parent
from duetime.model.failure import FailureClass
from duetime.model.graph import Graph, GraphStatus
from duetime.model.job import Job, JobState
from duetime.model.outcome import Cancel, GiveUp, RetryAfter, Snooze
from duetime.model.policy import Misfire
from duetime.model.retry import RetryPolicy
from duetime.model.run import RunState
from duetime.needs import Needs
from duetime.previewing import Preview, preview
from duetime.receipt import Receipt
from duetime.settings import Settings
from duetime.task import Task
from duetime.worker.context import Context, SyncContext, current_context

if TYPE_CHECKING:
    from duetime.client import AsyncClient, Client

__version__ = "0.1.0"

__all__ = [
    "AccessDenied",
    "App",
    "AsyncClient",
    "Calendar",
    "CalendarInUse",
    "Cancel",
    "Client",
    "Conflict",
    "Context",
    "DuetimeError",
    "FailureClass",
    "GiveUp",
    "Graph",
    "GraphPlan",
    "GraphStatus",
    "InvalidInput",
    "Job",
    "JobBusy",
    "JobState",
    "KeyInFlight",
    "KeyReused",
    "LeaseLost",
    "ManualClock",
    "Misfire",
    "Needs",
    "NotFound",
    "Parent",
    "Preview",
    "QuotaExceeded",
    "Receipt",
    "RetryAfter",
    "RetryPolicy",
    "Run",
    "RunState",
    "SchemaMismatch",
    "ServerUnavailable",
    "Settings",
    "SettingsError",
    "Snooze",
    "StaleVersion",
    "StoreError",
    "StoreLocked",
    "StoreUnavailable",
    "SyncContext",
    "Task",
    "__version__",
    "current_context",
    "preview",
]


def __getattr__(name: str) -> Any:
    """The clients come when they are asked for: an app that works on a database needs no HTTP."""
    if name in ("AsyncClient", "Client"):
        from duetime import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
