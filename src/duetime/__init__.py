"""duetime: a durable, multi-tenant job scheduler.

app = duetime.App()

@app.task(retries=3, timeout="30s")
async def send_report(to: str) -> str: ...

await send_report.submit(to="ops@example.com")
await send_report.options(run_in="10m").submit(to="ops@example.com")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from duetime.version import __version__

if TYPE_CHECKING:
    from duetime.client import AsyncClient, Client
    from duetime.clock import ManualClock
    from duetime.codec.annotations import Json
    from duetime.crypto.tls import ClientTls
    from duetime.embedded.app import App
    from duetime.errors import (
        AccessDenied,
        CalendarInUse,
        Closed,
        Conflict,
        DuetimeError,
        ImportedByChild,
        InStream,
        InvalidInput,
        JobBusy,
        KeyInFlight,
        KeyReused,
        LeaseLost,
        NameTaken,
        NotFound,
        PayloadMismatch,
        QuotaExceeded,
        RateLimited,
        RunCancelled,
        RunFailed,
        SchemaMismatch,
        ServerUnavailable,
        SettingsError,
        StaleVersion,
        StoreError,
        StoreLocked,
        StoreUnavailable,
        StreamFull,
        StreamUnavailable,
    )
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
    from duetime.model.target import (
        AwsSignature,
        ClientCredentials,
        GrpcTarget,
        HttpTarget,
        IdentityToken,
        KafkaTarget,
        KubernetesTarget,
        RabbitTarget,
        RedisTarget,
        SecretValue,
        ShellTarget,
        SqsTarget,
        Toleration,
    )
    from duetime.sdk.graph_plan import GraphPlan
    from duetime.sdk.preview import Preview, preview
    from duetime.sdk.receipt import JobReceipt, Receipt, SyncReceipt
    from duetime.sdk.task import Call, Task
    from duetime.settings import Settings
    from duetime.spec.dependencies import Needs
    from duetime.worker.context import BaseContext, Context, SyncContext, current_context
    from duetime.worker.hooks import FailedAttempt, SucceededAttempt

__all__ = [
    "AccessDenied",
    "App",
    "AsyncClient",
    "AwsSignature",
    "BaseContext",
    "Calendar",
    "CalendarInUse",
    "Call",
    "Cancel",
    "Client",
    "ClientCredentials",
    "ClientTls",
    "Closed",
    "Conflict",
    "Context",
    "DuetimeError",
    "FailedAttempt",
    "FailureClass",
    "GiveUp",
    "Graph",
    "GraphPlan",
    "GraphStatus",
    "GrpcTarget",
    "HttpTarget",
    "IdentityToken",
    "ImportedByChild",
    "InStream",
    "InvalidInput",
    "Job",
    "JobBusy",
    "JobReceipt",
    "JobState",
    "Json",
    "KafkaTarget",
    "KeyInFlight",
    "KeyReused",
    "KubernetesTarget",
    "LeaseLost",
    "ManualClock",
    "Misfire",
    "NameTaken",
    "Needs",
    "NotFound",
    "Parent",
    "PayloadMismatch",
    "Preview",
    "QuotaExceeded",
    "RabbitTarget",
    "RateLimited",
    "Receipt",
    "RedisTarget",
    "RetryAfter",
    "RetryPolicy",
    "Run",
    "RunCancelled",
    "RunFailed",
    "RunState",
    "SchemaMismatch",
    "SecretValue",
    "ServerUnavailable",
    "Settings",
    "SettingsError",
    "ShellTarget",
    "Snooze",
    "SqsTarget",
    "StaleVersion",
    "StoreError",
    "StoreLocked",
    "StoreUnavailable",
    "StreamFull",
    "StreamUnavailable",
    "SucceededAttempt",
    "SyncContext",
    "SyncReceipt",
    "Task",
    "Toleration",
    "__version__",
    "current_context",
    "preview",
]

_HOMES = {
    "duetime.embedded.app": ("App",),
    "duetime.client": ("AsyncClient", "Client"),
    "duetime.crypto.tls": ("ClientTls",),
    "duetime.clock": ("ManualClock",),
    "duetime.errors": (
        "AccessDenied",
        "CalendarInUse",
        "Closed",
        "Conflict",
        "DuetimeError",
        "ImportedByChild",
        "InStream",
        "InvalidInput",
        "JobBusy",
        "KeyInFlight",
        "KeyReused",
        "LeaseLost",
        "NameTaken",
        "NotFound",
        "PayloadMismatch",
        "QuotaExceeded",
        "SchemaMismatch",
        "RateLimited",
        "RunCancelled",
        "RunFailed",
        "ServerUnavailable",
        "SettingsError",
        "StaleVersion",
        "StoreError",
        "StoreLocked",
        "StoreUnavailable",
        "StreamFull",
        "StreamUnavailable",
    ),
    "duetime.sdk.graph_plan": ("GraphPlan",),
    "duetime.codec.annotations": ("Json",),
    "duetime.model.attempt": ("Run",),
    "duetime.model.calendar": ("Calendar",),
    "duetime.model.dependency": ("Parent",),
    "duetime.model.failure": ("FailureClass",),
    "duetime.model.graph": ("Graph", "GraphStatus"),
    "duetime.model.job": ("Job", "JobState"),
    "duetime.model.outcome": ("Cancel", "GiveUp", "RetryAfter", "Snooze"),
    "duetime.model.policy": ("Misfire",),
    "duetime.model.retry": ("RetryPolicy",),
    "duetime.model.run": ("RunState",),
    "duetime.model.target": (
        "AwsSignature",
        "ClientCredentials",
        "GrpcTarget",
        "HttpTarget",
        "IdentityToken",
        "KafkaTarget",
        "KubernetesTarget",
        "RabbitTarget",
        "RedisTarget",
        "SecretValue",
        "ShellTarget",
        "SqsTarget",
        "Toleration",
    ),
    "duetime.spec.dependencies": ("Needs",),
    "duetime.sdk.preview": ("Preview", "preview"),
    "duetime.sdk.receipt": ("JobReceipt", "Receipt", "SyncReceipt"),
    "duetime.settings": ("Settings",),
    "duetime.sdk.task": ("Call", "Task"),
    "duetime.worker.context": ("BaseContext", "Context", "SyncContext", "current_context"),
    "duetime.worker.hooks": ("FailedAttempt", "SucceededAttempt"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Names come when they are asked for: a command that only talks to a server loads no store, and an app that works
    on a database no HTTP."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
