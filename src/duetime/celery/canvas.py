"""chain, group and chord: signatures that become one graph.

A graph is stored in one transaction, before its first task starts. A task that takes the result of the one before it
reads that when it runs (`from_parents`); results are not copied. When a task fails for good, all that depend on it are
cancelled.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from duetime.celery.current import Owner
from duetime.celery.options import call_options
from duetime.celery.results import AsyncResult, GroupResult
from duetime.errors import InvalidInput
from duetime.ids import show
from duetime.model.graph import Graph
from duetime.sdk.graph_plan import GraphPlan
from duetime.sdk.task import Call

_HINTS = {
    "link": "use chain(first, second)",
    "link_error": "use on_failure of duetime.App, or a graph with duetime.Needs([…], on='finished')",
    "on_error": "use on_failure of duetime.App, or a graph with duetime.Needs([…], on='finished')",
    "apply": "call the functions, or use duetime.testing",
    "chunks": "use app.submit_many([task.bind(…), …])",
    "stamp": "use name= or tags=",
}


class Signable(Protocol):
    """A task, as far as signatures need it."""

    __name__: str

    @property
    def name(self) -> str: ...

    @property
    def celery(self) -> Owner: ...

    def bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], from_parents: str | None = None) -> Call[Any]: ...

    def apply_async(
        self, args: Iterable[Any] | None = None, kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> Any: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...


class Planted(NamedTuple):
    """The nodes that a part of a canvas ends with."""

    nodes: tuple[str, ...]
    many: bool
    """Whether they are a group, whose results are a list."""
    before: "Planted | None" = None


class Canvas(ABC):
    """A signature, or several."""

    @abstractmethod
    def plant(
        self, plan: GraphPlan, before: Planted | None, args: tuple[Any, ...], options: Mapping[str, Any]
    ) -> Planted:
        """Add the nodes of this part. `args` and `options` are for its first tasks."""

    @abstractmethod
    def app(self) -> Owner:
        """The app of its tasks."""

    def apply_async(self, args: Iterable[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Store everything, or nothing. `args` and the options go to the first tasks."""
        if kwargs:
            raise InvalidInput("only a task takes keywords", field="kwargs", remedy="give them to task.s(…)")
        app = self.app()
        plan = GraphPlan(options.pop("name", None))
        key = options.pop("idempotency_key", None)
        planted = self.plant(plan, None, tuple(args), call_options(options, app.zone))
        return _result(app, app.jobs.sync.submit_graph(plan, idempotency_key=key), planted)

    def delay(self, *args: Any) -> Any:
        return self.apply_async(args)

    def __call__(self, *args: Any) -> Any:
        return self.apply_async(args)

    def __or__(self, other: "Canvas") -> "chain":
        return chain(self, other)

    def __getattr__(self, name: str) -> Any:
        hint = _HINTS.get(name)
        known = f"{type(self).__name__} of duetime.celery has no attribute {name!r}"
        raise AttributeError(known if hint is None else f"{known}: {hint}")


class Signature(Canvas):
    """A task with some of its arguments. In a chain, the result of the task before it comes first, unless it is
    immutable (`task.si(…)`)."""

    def __init__(
        self,
        task: Signable,
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        immutable: bool = False,
    ) -> None:
        self.task = task
        self.args = tuple(args)
        self.kwargs = dict(kwargs or {})
        self.options = dict(options or {})
        self.immutable = immutable

    def set(self, immutable: bool | None = None, **options: Any) -> "Signature":
        """The same with other options."""
        kept = self.immutable if immutable is None else immutable
        return Signature(self.task, self.args, self.kwargs, {**self.options, **options}, kept)

    def clone(self, args: Iterable[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Any) -> "Signature":
        """The same with further arguments, which come first."""
        if self.immutable:
            return self.set(**options)
        both = {**self.kwargs, **(kwargs or {})}
        return Signature(self.task, (*args, *self.args), both, {**self.options, **options})

    def app(self) -> Owner:
        return self.task.celery

    def apply_async(self, args: Iterable[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Any) -> Any:
        whole = self.clone(args, kwargs, **options)
        return self.task.apply_async(whole.args, whole.kwargs, **whole.options)

    def delay(self, *args: Any, **kwargs: Any) -> Any:
        return self.apply_async(args, kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function here, as Celery does."""
        whole = self.clone(args, kwargs)
        return self.task(*whole.args, **whole.kwargs)

    def plant(
        self, plan: GraphPlan, before: Planted | None, args: tuple[Any, ...], options: Mapping[str, Any]
    ) -> Planted:
        takes = None if before is None or self.immutable else "all" if before.many else "one"
        whole = self.clone(args)
        bound = self.task.bound(whole.args, whole.kwargs, from_parents=takes)
        name = f"{len(plan.nodes) + 1}-{self.task.__name__}"
        own = call_options(self.options, self.task.celery.zone)
        plan.add(name, bound, depends_on=() if before is None else before.nodes, **{**own, **options})
        return Planted((name,), False, before)

    def __repr__(self) -> str:
        shown = [*map(repr, self.args), *(f"{name}={value!r}" for name, value in self.kwargs.items())]
        return f"{self.task.name}({', '.join(shown)})"


class chain(Canvas):
    """One after the other."""

    def __init__(self, *parts: Any) -> None:
        given = _parts(parts)
        self.parts: list[Canvas] = [
            inner for part in given for inner in (part.parts if isinstance(part, chain) else [part])
        ]

    def app(self) -> Owner:
        return self.parts[0].app()

    def plant(
        self, plan: GraphPlan, before: Planted | None, args: tuple[Any, ...], options: Mapping[str, Any]
    ) -> Planted:
        planted = self.parts[0].plant(plan, before, args, options)
        for part in self.parts[1:]:
            planted = part.plant(plan, planted, (), {})
        return planted


class group(Canvas):
    """All at the same time. What follows a group gets the list of its results."""

    def __init__(self, *parts: Any) -> None:
        self.parts = _parts(parts)

    def app(self) -> Owner:
        return self.parts[0].app()

    def plant(
        self, plan: GraphPlan, before: Planted | None, args: tuple[Any, ...], options: Mapping[str, Any]
    ) -> Planted:
        planted = [part.plant(plan, before, args, options) for part in self.parts]
        if any(each.many for each in planted):
            raise InvalidInput(
                "a group inside a group has no flat list of results", field="group", remedy="put all into one group"
            )
        return Planted(tuple(name for each in planted for name in each.nodes), True, before)


class chord(chain):
    """A group, and a task that gets the list of its results: `chord(header)(body)`, or `chord(header, body)()`."""

    def __init__(self, header: Any, body: Canvas | None = None) -> None:
        super().__init__(header if isinstance(header, group) else group(header), *(() if body is None else (body,)))
        self._has_body = body is not None

    def __call__(self, *args: Any) -> Any:
        if self._has_body:
            return super().__call__(*args)
        if len(args) != 1 or not isinstance(args[0], Canvas):
            raise InvalidInput("a chord needs its body", field="body", remedy="chord(header)(body)")
        return chain(*self.parts, args[0]).apply_async()


def _parts(given: tuple[Any, ...]) -> list[Canvas]:
    parts = list(given[0]) if len(given) == 1 and not isinstance(given[0], Canvas) else list(given)
    if not parts:
        raise InvalidInput("is empty", field="tasks", remedy="give at least one task.s(…)")
    for part in parts:
        if not isinstance(part, Canvas):
            raise InvalidInput(f"{part!r} is not a signature", field="tasks", remedy="such as task.s(…)")
    return parts


def _result(app: Owner, graph: Graph, planted: Planted) -> AsyncResult | GroupResult:
    parent = None if planted.before is None else _result(app, graph, planted.before)
    results = [AsyncResult(show("job", graph.node(name).job_id), app, parent) for name in planted.nodes]
    return GroupResult(results, parent) if planted.many else results[0]
