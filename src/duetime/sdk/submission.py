"""Submitting and scheduling calls, targets, batches and graphs."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, TypeVar, Unpack, cast, overload

from duetime.errors import InvalidInput, NotFound
from duetime.model.graph import Graph
from duetime.model.job import Submitted
from duetime.model.target import Target
from duetime.sdk.graph_plan import GraphPlan
from duetime.sdk.order import Node, Order
from duetime.sdk.pending import Pending, begins_later
from duetime.sdk.receipt import JobReceipt, Receipt, Wait, plain_result, receipt_fields
from duetime.sdk.stored_jobs import StoredJobs
from duetime.sdk.task import Bindable, Call, Submitter, Task, check_options
from duetime.settings import Settings
from duetime.spec.derived import OF_SCHEDULES, OF_SUBMISSIONS
from duetime.spec.options import ScheduleOptions, SubmitOptions
from duetime.targets.validation import as_target

R = TypeVar("R")
TargetLike = Target | Mapping[str, Any]
"""A target, or its fields: `{"type": "http", "url": …}`."""
_CALLS = (Call, Task)
_BOUND = "send.submit(to=…), or app.submit(send.bind(to=…))"
_REPEATS = ("cron", "every", "when", "rrule", "after")


class Submission(StoredJobs, ABC):
    """The part of an app that creates jobs."""

    @property
    @abstractmethod
    def settings(self) -> Settings: ...

    @property
    @abstractmethod
    def tasks(self) -> Mapping[str, Task[..., Any]]: ...

    @overload
    def submit(self, what: Bindable[R], /, **options: Unpack[SubmitOptions]) -> Coroutine[Any, Any, Receipt[R]]: ...
    @overload
    def submit(
        self, what: str, args: Mapping[str, Any] | None = None, /, **options: Unpack[SubmitOptions]
    ) -> Coroutine[Any, Any, Receipt[Any]]: ...
    @overload
    def submit(self, what: TargetLike, /, **options: Unpack[SubmitOptions]) -> Coroutine[Any, Any, Receipt[Any]]: ...

    @begins_later
    def submit(self, what: Any, args: Any = None, /, **options: Any) -> Coroutine[Any, Any, Receipt[Any]]:
        """Run something once: a call (`send.bind(to="x")`), a task that needs no arguments, a task by name with its
        arguments, or a target, which duetime's own workers call.

        It runs now, at `run_at`, after `run_in`, or as the words `when` say ("tomorrow at 8"). `tz` is the zone whose
        clock and calendar words and delays in days or months (`P1M`) go by. `depends_on` are jobs to wait for: a list
        of receipts or ids, or `Needs`. With `key`, submitting the same again changes nothing. `connection` takes your
        own open connection (asyncpg, psycopg, SQLAlchemy, Django, sqlite3): the job then commits or rolls back with
        your data. Options given here count before those of the task.
        """
        found = what if type(what) is Call and args is None else self._what(what, args, options, OF_SUBMISSIONS)
        return Pending("submit", self._submit, found, options)

    @begins_later
    def submit_many(
        self, calls: Iterable[Bindable[R]], /, **options: Unpack[SubmitOptions]
    ) -> Coroutine[Any, Any, list[Receipt[R]]]:
        """Run each of these calls once; all are stored in one transaction, or none."""
        return Pending("submit_many", self._submit_many, calls, options)

    @overload
    def schedule(
        self, what: Bindable[Any] | TargetLike, /, **options: Unpack[ScheduleOptions]
    ) -> Coroutine[Any, Any, JobReceipt]: ...
    @overload
    def schedule(
        self, what: str, args: Mapping[str, Any] | None = None, /, **options: Unpack[ScheduleOptions]
    ) -> Coroutine[Any, Any, JobReceipt]: ...

    @begins_later
    def schedule(self, what: Any, args: Any = None, /, **options: Any) -> Coroutine[Any, Any, JobReceipt]:
        """Run something again and again: on a cron line, on a recurrence rule (`rrule`), at an interval (`every`), or
        as the words `when` say ("every weekday at 9am"). With `key=`, scheduling the same thing twice leaves one job,
        and scheduling something else under the key edits it.

        `start_at` and `end_at` bound it, `exclude` leaves out days: `{"dates": […], "weekdays": […], "calendars": […],
        "instead": "skip" or "next_day"}`. With `day_match="both"`, a day must match both the day of month and the day
        of week of a cron line, rather than one of them. Policies: `misfire` says what becomes of missed occurrences
        ("latest", "skip" or "all"), `overlap` of one that meets a run of this job that is not over ("allow", "skip",
        "queue" or "replace"). `jitter` moves each fire back by up to that long, `max_runs` ends the job after so many
        runs.

        `after=` another job (or `{"job": …, "on": "success", "failure" or "any"}`) makes a chain instead: it runs
        whenever a run of that one has ended so.
        """
        return Pending("schedule", self._schedule, self._what(what, args, options, OF_SCHEDULES), options)

    async def submit_graph(self, plan: GraphPlan, *, idempotency_key: str | None = None) -> Graph:
        """Store all nodes of a graph in one transaction, or none; refuses unknown names and cycles."""
        nodes = {}
        for name, planned in plan.nodes.items():
            try:
                _check_no_connection(planned.call.task.connection)
                order = self._order(planned.call, planned.options, OF_SUBMISSIONS)
            except InvalidInput as error:
                raise within(f"nodes.{name}", error) from None
            nodes[name] = Node(order, planned.parents, planned.rule)
        return await self._stores.ask(
            lambda jobs: jobs.submit_graph(nodes, name=plan.name, idempotency_key=idempotency_key)
        )

    # Inside.

    async def _submit(self, what: Call[Any] | Target, options: dict[str, Any]) -> Receipt[Any]:
        connection = options.pop("connection", None)
        if connection is None and isinstance(what, Call):
            connection = what.task.connection
        order = self._order(what, options, OF_SUBMISSIONS)
        if connection is None:
            (answer,) = await self._stores.ask(lambda jobs: jobs.submit([order]))
        else:
            answer = await self._stores.submit_within(connection, order)
        return _receipt(answer, what, self.wait)

    async def _submit_many(self, calls: Iterable[Bindable[Any]], options: dict[str, Any]) -> list[Receipt[Any]]:
        _check_no_connection(options.pop("connection", None))
        check_options(options, OF_SUBMISSIONS, None)
        if isinstance(calls, _CALLS):
            raise InvalidInput("must be a list of calls", field="calls", remedy="submit_many([send.bind(to=…), …])")
        orders: list[Order] = []
        limit = self.settings.max_payload
        owned: Task[..., Any] | None = None
        for index, each in enumerate(calls):
            try:
                call = each if type(each) is Call else self._call(each)
                if call.task is not owned:
                    owned = self._check_own(call)
                    _check_no_connection(owned.connection)
                orders.append(Order(call, call.encoded(limit), options))
            except InvalidInput as error:
                raise within(f"calls[{index}]", error) from None
        answers = await self._stores.ask(lambda jobs: jobs.submit(orders))
        wait = self.wait
        return [_receipt(answer, order.what, wait) for answer, order in zip(answers, orders, strict=True)]

    async def _schedule(self, what: Call[Any] | Target, options: dict[str, Any]) -> JobReceipt:
        if isinstance(what, Call):
            _check_no_connection(what.task.connection)
        order = self._order(what, options, OF_SCHEDULES, once=False)
        if all(options.get(name) is None for name in _REPEATS):
            raise InvalidInput(
                "`cron`, `every`, `when`, `rrule` or `after` is required", field="cron", remedy="or use submit"
            )
        (answer,) = await self._stores.ask(lambda jobs: jobs.submit([order]))
        return JobReceipt(*receipt_fields(answer))

    def _what(self, what: Any, args: Any, options: Mapping[str, Any], allowed: Mapping[str, Any]) -> Call[Any] | Target:
        """The call or the target that is asked for."""
        if isinstance(what, _CALLS):
            if args is not None:
                raise InvalidInput("arguments are bound to a task, not given beside it", field="args", remedy=_BOUND)
            try:
                return what.bind()
            except InvalidInput:
                # An argument that was given as an option explains best why arguments are missing.
                if isinstance(what, Task):
                    check_options({name: each for name, each in options.items() if name != "connection"}, allowed, what)
                raise
        if isinstance(what, str):
            if (task := self.tasks.get(what)) is None:
                known = ", ".join(sorted(self.tasks)) or "none"
                raise NotFound(f"there is no task {what!r} in this app", field="task", remedy=f"it has: {known}")
            return task.bind(**check_mapping({} if args is None else args))
        if isinstance(what, Mapping | Target):
            if args is not None:
                raise InvalidInput("a target has no arguments", field="args", remedy="put them into its body")
            return as_target(what)
        return self._call(what)

    def _call(self, what: Bindable[Any]) -> Call[Any]:
        if not isinstance(what, _CALLS):
            if inspect.iscoroutine(what):
                what.close()  # else Python warns that it was never awaited, which is no remedy
                problem = f"{what.__qualname__}(…) is a call, which runs the function here"
                raise InvalidInput(problem, field="task", remedy=f"app.submit({what.__name__}.bind(…))")
            remedy = "decorate the function with @app.task, and give the task or task.bind(…), not what a call returns"
            raise InvalidInput(f"{what!r} is not a task", field="task", remedy=remedy)
        return what.bind()

    def _order(
        self, what: Call[Any] | Target, options: Mapping[str, Any], allowed: Mapping[str, Any], *, once: bool = True
    ) -> Order:
        """An order, after all checks that need no database."""
        if not isinstance(what, Call):
            check_options(options, allowed, None)
            return Order(what, b"", options, once)
        self._check_own(what)
        if options:
            check_options(options, allowed, what.task)
        return Order(what, what.encoded(self.settings.max_payload), options, once)

    def _check_own(self, call: Call[Any]) -> Task[..., Any]:
        if call.task.app is not cast(Submitter, self):
            raise NotFound(f"the task {call.task.name!r} belongs to another app", field="task")
        return call.task


def _receipt(answer: Submitted, what: Call[Any] | Target, wait: Wait) -> Receipt[Any]:
    decode = what.task.definition.decode_result if isinstance(what, Call) else plain_result
    return Receipt(*receipt_fields(answer), wait, decode)


def _check_no_connection(connection: object) -> None:
    """Only `submit` supports `connection=`: other calls must not silently store jobs outside the transaction."""
    if connection is not None:
        raise InvalidInput("only `submit` accepts a connection", field="connection", remedy="submit each call")


def within(place: str, error: InvalidInput) -> InvalidInput:
    """The same error, with the item of the batch or the node of the graph."""
    return InvalidInput(error.message, field=f"{place}.{error.field}" if error.field else place, remedy=error.remedy)


def check_mapping(value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise InvalidInput(f"{value!r} is not a dict of arguments by name", field="args", remedy="such as {'to': 1}")
    return dict(value)
