"""Traces: one trace from the submitter's span through fire, claim and attempt, to the calls that the task makes.

A run of a one-off job belongs to the trace that it was submitted in. An occurrence of a recurring job has its own
trace, whose id is the run's, with a link to the job's submission: otherwise one trace would never end. Both are sampled
if the submission was. A job that was submitted without a trace has spans for its attempts only.

OpenTelemetry is optional (`duetime[otel]`), and is loaded only when tracing is enabled. With or without it, a trace is
identified outside of a process by a W3C `traceparent`.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from duetime.errors import SettingsError
from duetime.ids import show

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, SpanContext, TracerProvider

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


def is_traceparent(text: str) -> bool:
    """Whether a text is valid by the W3C's rules; input from outside may be anything."""
    found = _TRACEPARENT.fullmatch(text)
    if found is None or found[1] == "ff" or (found[1] == "00" and found[5]):
        return False
    return int(found[2], 16) != 0 and int(found[3], 16) != 0


def current_headers() -> dict[str, str]:
    """The headers of an outgoing request in a program that traces: the current span."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return {}
    context = trace.get_current_span().get_span_context()
    return {"traceparent": _text(context)} if context.is_valid else {}


class Origin(NamedTuple):
    """What a job stores about its submission."""

    parent: str | None = None
    """The run is part of this trace."""
    link: str | None = None
    """Its runs have their own traces, which link to this one."""


class Message(NamedTuple):
    """A run, as spans describe it."""

    run_id: UUID
    job_id: UUID
    tenant_id: int
    queue: str
    task: str
    origin: Origin


class AttemptSpan:
    """The span of an attempt: open until it is ended, and current where its task runs."""

    def __init__(self, span: "Span") -> None:
        self._span = span
        self.traceparent = _text(span.get_span_context())

    def active(self) -> AbstractContextManager[Any]:
        """Spans that are created inside the block are its children."""
        from opentelemetry.trace import use_span

        return use_span(self._span, end_on_exit=False, record_exception=False, set_status_on_exception=False)

    def end(self, failure: str | None, text: str | None) -> None:
        """`failure`: its class; `text`: the first line of the error."""
        if failure is not None:
            from opentelemetry.trace import Status, StatusCode

            self._span.set_attribute("error.type", failure)
            self._span.set_status(Status(StatusCode.ERROR, text))
        self._span.end()


class Tracer:
    def __init__(self, provider: "TracerProvider") -> None:
        from opentelemetry.trace import SpanKind

        self._kinds = SpanKind
        self._tracer = provider.get_tracer("duetime")

    @contextmanager
    def submitting(self, queue: str, count: int, parent: str | None = None) -> Iterator[str]:
        """The span of a submission: in the caller's trace (`parent`), or in the current one. Yields the `traceparent`
        that its jobs store."""
        attributes = _attributes("send", queue, **({"messaging.batch.message_count": count} if count > 1 else {}))
        context = _remote(parent)[0] if parent is not None and is_traceparent(parent) else None
        with self._tracer.start_as_current_span(
            f"send {queue}", context, kind=self._kinds.PRODUCER, attributes=attributes
        ) as span:
            yield _text(span.get_span_context())

    def fired(self, messages: Sequence[Message], began: int, ended: int) -> None:
        for message in messages:
            self._finished_span("fire", message, self._kinds.PRODUCER, began, ended)

    def claimed(self, messages: Sequence[Message], began: int, ended: int) -> None:
        for message in messages:
            self._finished_span("receive", message, self._kinds.CLIENT, began, ended)

    def attempt(self, message: Message, attempt: int) -> AttemptSpan:
        context, links = _parent_and_links(message)
        attributes = _attributes_of("process", message) | {"duetime.attempt": attempt}
        name = f"process {message.queue}"
        return AttemptSpan(
            self._tracer.start_span(name, context, kind=self._kinds.CONSUMER, attributes=attributes, links=links)
        )

    def _finished_span(self, name: str, message: Message, kind: Any, began: int, ended: int) -> None:
        """A span for something that has already happened, for a run whose submission was traced."""
        context, links = _parent_and_links(message)
        if context is None:
            return
        attributes = _attributes_of(name, message)
        span = self._tracer.start_span(
            f"{name} {message.queue}", context, kind=kind, attributes=attributes, links=links, start_time=began
        )
        span.end(ended)


def make_tracer() -> Tracer:
    """The tracer of this process: the application's own provider if it has set one, otherwise one that exports by OTLP
    as the OTEL_* variables say."""
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise SettingsError(
            f"traces are enabled, but OpenTelemetry is not installed: {error}",
            field="traces",
            remedy="pip install 'duetime[otel]'",
        ) from None
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        named = Resource({SERVICE_NAME: "duetime"}).merge(OTELResourceDetector().detect())
        provider = TracerProvider(resource=named)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        trace.set_tracer_provider(provider)
    return Tracer(provider)


def _attributes(operation: str, queue: str, **more: Any) -> dict[str, Any]:
    kind = {"fire": "create"}.get(operation, operation)
    return {
        "messaging.system": "duetime",
        "messaging.operation.name": operation,
        "messaging.operation.type": kind,
        "messaging.destination.name": queue,
        **more,
    }


def _attributes_of(operation: str, message: Message) -> dict[str, Any]:
    return _attributes(operation, message.queue) | {
        "messaging.message.id": show("run", message.run_id),
        "duetime.job.id": show("job", message.job_id),
        "duetime.tenant.id": message.tenant_id,
        "duetime.task": message.task,
    }


def _parent_and_links(message: Message) -> "tuple[Context | None, list[Link]]":
    """The parent context and the links of a run's spans."""
    from opentelemetry.trace import Link

    parent, link = message.origin
    if parent is not None and is_traceparent(parent):
        return _remote(parent)[0], []
    if link is not None and is_traceparent(link):
        _, submitted = _remote(link)
        number = message.run_id.int
        own = f"00-{number:032x}-{(number & (2**64 - 1)) or 1:016x}-{submitted.trace_flags:02x}"
        return _remote(own)[0], [Link(submitted)]
    return None, []


def _remote(traceparent: str) -> "tuple[Context, SpanContext]":
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    _, trace_id, span_id, flags = traceparent.split("-")[:4]
    found = SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16)))
    return set_span_in_context(NonRecordingSpan(found), Context()), found


def _text(context: "SpanContext") -> str:
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
