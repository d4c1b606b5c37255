"""The messages between a remote worker and a server; `docs/worker-protocol.md` describes the protocol.

Requests with unknown fields are refused; answers may have fields that their reader does not know. Ids are text
(`run_…`), moments are RFC 3339, durations are seconds. Arguments, results and checkpoints are JSON values.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from duetime.spec.derived import OF_TASKS, request_struct

TOKEN_HEADER = "Duetime-Worker-Token"
"""Carries the token of the session, on every request except the registration."""
MOST_RUNS = 1000
"""Runs in one claim, completions in one report."""
LONGEST_WAIT = 60.0
"""Seconds that a claim may wait for a run."""
LOG_LIMIT = 1024 * 1024
"""Bytes of JSON that the log of one attempt may have."""
LOG_LINES = 10_000
LINE_LENGTH = 2000
LEVEL_LENGTH = 20

Ident = Annotated[str, msgspec.Meta(max_length=64)]
Fence = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
ClaimNo = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=366 * 86_400)]
Lease = Annotated[float, msgspec.Meta(ge=1, le=3600)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
ProbedRuns = Annotated[int, msgspec.Meta(ge=0, le=MOST_RUNS)]
FailureName = Literal["error", "timeout", "lost", "cancelled", "target_refused", "target_failed", "network", "gave_up"]


class Request(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What a worker sends."""


class Answer(msgspec.Struct):
    """What a worker receives."""


if TYPE_CHECKING:

    class TaskDefaults(Request):
        def __init__(self, **options: Any) -> None: ...
else:
    TaskDefaults = request_struct(
        *("TaskDefaults", OF_TASKS.values(), Request),
        doc="The defaults for jobs of a task, as in `POST /v1/jobs`.",
        frozen=False,
    )


class Registration(Request):
    """Registers a worker."""

    name: Name
    """Identifies the worker for people, such as its host and process."""
    tasks: Annotated[list[Name], msgspec.Meta(min_length=1, max_length=10_000)]
    """The tasks that it provides."""
    queues: Annotated[list[Name], msgspec.Meta(max_length=1000)] = []
    """The queues that it claims from; none: all that its key permits."""
    slots: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1
    """How many runs it can hold at once."""
    lease: Lease | None = None
    """Seconds that it may be silent. Default: the server's own setting."""
    version: Annotated[str, msgspec.Meta(max_length=100)] = ""
    """Its software version, for people, such as `shop-worker 2.1`."""
    defaults: Annotated[dict[Name, TaskDefaults], msgspec.Meta(max_length=10_000)] = {}
    """The job defaults of its tasks. For tasks that are not named here, earlier defaults and schemas stay."""
    schemas: Annotated[dict[Name, Any], msgspec.Meta(max_length=10_000)] = {}
    """The JSON schemas of the arguments of tasks in `defaults`. Jobs whose arguments do not fit are refused. For other
    tasks in `defaults`, earlier schemas are forgotten."""


class Registered(Answer):
    worker_id: str
    token: str
    """The session's token: every other request carries it in `Duetime-Worker-Token`. It is not shown again."""
    lease: float
    """Seconds that the worker may be silent."""
    heartbeat: float
    """Seconds until it should send the next heartbeat."""
    lease_until: datetime


class Ask(Request):
    """Claims runs."""

    claim_no: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    """Counts up from 1. A repeated request with the same number gets the same runs. 0: claim nothing, wait only for
    cancellations."""
    room: Annotated[int, msgspec.Meta(ge=0, le=MOST_RUNS)] = 1
    """How many runs it has room for. 0: do not wait, and return what this claim has brought before."""
    tasks: Annotated[list[Name], msgspec.Meta(min_length=1, max_length=10_000)] | None = None
    """Only these of the registered tasks."""
    wait: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_WAIT)] = 30.0
    """Seconds to wait for a run before the answer is empty."""
    suspects: Annotated[int, msgspec.Meta(ge=0, le=MOST_RUNS)] = 1
    """How many runs it takes that were in one worker's crash."""
    probed: Annotated[int, msgspec.Meta(ge=0, le=1)] = 1
    """Whether it takes a run that was in two crashes: the only one of those until it has ended."""
    proven: Annotated[dict[Name, ProbedRuns], msgspec.Meta(max_length=10_000)] = {}
    """For tasks of which such a run has ended here: how many more it takes. They are never claimed together with those
    of other tasks."""
    alone: Annotated[int, msgspec.Meta(ge=0, le=1)] = 1
    """Whether it takes a run that was in more crashes. It comes alone: run nothing else beside it."""
    held: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    """How many runs it holds already. A run that comes alone goes to an idle worker if there is one."""


class DealtRun(Answer, kw_only=True, omit_defaults=True):
    """A run for the worker, with everything that it needs."""

    run_id: str
    job_id: str
    fence: int
    """Send it with every report about this run."""
    task: str
    queue: str
    priority: Literal["HIGH", "MEDIUM", "LOW"]
    attempt: int
    """The first is 1."""
    lost: int = 0
    """Attempts that lost their worker before this one."""
    trial: int = 0
    """How far it is trusted. 0: fully. 1: it, or its task, was in a worker's crash. 2: in two. 3: in more."""
    due_at: datetime
    ready_at: datetime
    started_at: datetime
    timeout: float | None = None
    """Seconds after which the worker should stop it."""
    args: msgspec.Raw
    options: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """Further options of the job: `retry`, `at_most_once`, `payload_ref`, `name`, `tags`, …"""
    checkpoint: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """What an earlier attempt saved."""


class Dealt(Answer):
    runs: list[DealtRun] = []
    cancelled: list[str] = []
    """Runs of this worker whose cancellation was requested."""


class Beat(Request):
    """A heartbeat."""

    open_claims: Annotated[list[ClaimNo], msgspec.Meta(max_length=100_000)]
    """The claims that still hold runs. Claims that a worker does not list for a whole lease are given to others."""
    lease: Lease | None = None
    answered: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0
    """The number up to which all its claims were answered. Their runs may have started: those that are not listed count
    as lost."""


class Beaten(Answer):
    lease_until: datetime
    cancelled: list[str] = []
    freed: int = 0
    """Runs that were taken back because the worker did not list their claims."""


class LogLine(Request):
    at: Annotated[str, msgspec.Meta(max_length=40)]
    """When, such as 2027-01-31T09:00:00.123+00:00."""
    level: Annotated[str, msgspec.Meta(max_length=LEVEL_LENGTH)] = "INFO"
    text: Annotated[str, msgspec.Meta(max_length=LINE_LENGTH)] = ""


class Logs(Request):
    """The log of an attempt."""

    lines: Annotated[list[LogLine], msgspec.Meta(max_length=LOG_LINES)]
    dropped: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Lines that were dropped because there were too many."""


class Report(Request):
    """The result of one attempt."""

    run_id: Ident
    fence: Fence
    state: Literal["SUCCEEDED", "FAILED", "SNOOZED", "CANCELLED", "SKIPPED"]
    result: Any = None
    error: Annotated[str, msgspec.Meta(max_length=100_000)] | None = None
    traceback: Annotated[str, msgspec.Meta(max_length=100_000)] | None = None
    failure: FailureName = "error"
    """The class of a failure."""
    error_types: Annotated[list[Name], msgspec.Meta(max_length=50)] = []
    """Names that the job's `retry_on` and `give_up_on` may name."""
    retry_in: Seconds | None = None
    """FAILED: seconds to wait instead of the policy's backoff. SNOOZED: seconds to wait."""
    final: bool = False
    """FAILED: do not retry."""
    logs: Logs | None = None


class Reports(Request):
    completions: Annotated[list[Report], msgspec.Meta(max_length=MOST_RUNS)] = []
    closed_claims: Annotated[list[ClaimNo], msgspec.Meta(max_length=100_000)] = []
    """Claims that hold no runs any more."""


class Refusals(Answer):
    refused: list[str] = []
    """Runs that belong to another worker by now, or have ended: the reports about them were dropped."""


class Note(Request):
    """Progress, log and checkpoint of a running attempt."""

    run_id: Ident
    fence: Fence
    progress: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    message: Annotated[str, msgspec.Meta(max_length=500)] | None = None
    checkpoint: Any | msgspec.UnsetType = msgspec.UNSET
    """What the next attempt should start from."""
    logs: Logs | None = None
    """The whole log so far; shown while it runs."""


class Notes(Request):
    notes: Annotated[list[Note], msgspec.Meta(max_length=MOST_RUNS)]


class AskParents(Request):
    run_id: Ident
    after: Ident | None = None
    """The job of the last parent in the previous answer."""


class ParentOfRun(Answer, omit_defaults=True):
    """A job that a run depended on, or that it runs after."""

    job_id: str
    run_id: str | None = None
    name: str | None = None
    """Its name in the graph that both belong to."""
    task: str | None = None
    """The task that it ran."""
    state: Literal["SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED"] | None = None
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: str | None = None


class Parents(Answer):
    parents: list[ParentOfRun]
    more: bool = False
    """Whether there may be more: repeat the request with `after`."""


class Compare(Request):
    """Everything that a worker holds under some of its claims."""

    claims: Annotated[list[ClaimNo], msgspec.Meta(max_length=1000)]
    """Claims that were answered a lease ago or earlier."""
    runs: Annotated[list[Ident], msgspec.Meta(max_length=MOST_RUNS)]
    """All the runs of these claims that it holds."""


class Unaccounted(Answer):
    runs: list[str] = []
    """Other runs that the server has under these claims, at most 1,000."""


class HeldRun(Request):
    run_id: Ident
    fence: Fence


class HandBack(Request):
    """Runs that were not started, or that the worker has no time to finish."""

    runs: Annotated[list[HeldRun], msgspec.Meta(max_length=100_000)] = []
    claims: Annotated[list[ClaimNo], msgspec.Meta(max_length=1000)] = []
    """Claims whose answer never arrived: their runs become ready again, and nothing is claimed under these numbers any
    more."""
    not_held: Annotated[list[Ident], msgspec.Meta(max_length=1000)] = []
    """Runs that the worker does not hold, although it was asked to cancel them or the server has them under its claims:
    they count as lost, and end if they were cancelled."""


class HandedBack(Answer):
    handed_back: int


class Left(Answer):
    left: Literal[True] = True
