"""Sentry: an event for each run that failed for good, with its task, run, tenant and attempt as tags.

    sentry_sdk.init(dsn="…")
    app = duetime.App()
    sentry.install(app)

Each attempt has an isolation scope of its own with these tags, so events and breadcrumbs of the task's own code have
them too. Arguments are not sent unless `send_args` is given, and neither are the local variables of the traceback,
which contain them.
"""

from collections.abc import Generator
from functools import partial
from typing import Any

from duetime.errors import InvalidInput
from duetime.sdk.app import App
from duetime.worker import attempt_reports
from duetime.worker.context import BaseContext
from duetime.worker.hooks import EndedAttempt, FailedAttempt

try:
    import sentry_sdk
    from sentry_sdk.integrations.logging import ignore_logger
    from sentry_sdk.scope import use_isolation_scope
    from sentry_sdk.utils import event_from_exception
except ImportError as error:
    raise ImportError("duetime.integrations.sentry needs sentry-sdk 2: pip install 'duetime[sentry]'") from error

_SCOPE = "__duetime_scope__"
_MECHANISM = {"type": "duetime", "handled": False}


def install(app: App, *, retries: bool = False, send_args: bool = False) -> None:
    """Report the failed runs of this app. `retries`: also the failed attempts whose runs are tried again, as warnings.
    `send_args`: with arguments and local variables."""
    if around_attempt in app.middlewares:
        raise InvalidInput("Sentry is already installed in this app", field="app", remedy="call install once")
    app.middleware(around_attempt)
    app.on_failure(partial(_capture, level="error", send_args=send_args))
    if retries:
        app.on_retry(partial(_capture, level="warning", send_args=send_args))
    # The worker logs each failed attempt. Sentry's logging integration would report it a second time, without tags.
    ignore_logger(attempt_reports.log.name)


def around_attempt(ctx: BaseContext) -> Generator[None, Any, None]:
    """The middleware. At the top level, so that child processes can import it."""
    with sentry_sdk.isolation_scope() as scope:
        _describe(scope, ctx)
        try:
            yield
        except Exception as error:
            error.__dict__[_SCOPE] = scope  # its breadcrumbs belong to the event
            raise


def _describe(scope: sentry_sdk.Scope, of: BaseContext | EndedAttempt) -> None:
    scope.set_transaction_name(of.task, source="task")
    scope.set_tag("duetime.task", of.task)
    scope.set_tag("duetime.queue", of.queue)
    scope.set_tag("duetime.job_id", of.job_id)
    scope.set_tag("duetime.run_id", of.run_id)
    scope.set_tag("duetime.attempt", str(of.attempt))
    if of.tenant_id:  # a remote worker does not know its tenant
        scope.set_tag("duetime.tenant_id", str(of.tenant_id))


def _capture(failed: FailedAttempt, *, level: str, send_args: bool) -> None:
    client = sentry_sdk.get_client()
    if not client.is_active():
        return
    hint: dict[str, Any] = {}
    if failed.error is not None:
        options = client.options if send_args else {**client.options, "include_local_variables": False}
        event, hint = event_from_exception(failed.error, client_options=options, mechanism=_MECHANISM)
    else:
        event = _without_exception(failed)
    event["level"] = level  # type: ignore[typeddict-item]
    details: dict[str, Any] = {"failure": failed.failure.label, "retried": failed.retried}
    if failed.retry_in is not None:
        details["retry_in"] = failed.retry_in.total_seconds()
    if send_args:
        details["args"] = failed.args
    event["contexts"] = {"duetime": details}
    attempt = None if failed.error is None else failed.error.__dict__.pop(_SCOPE, None)
    with use_isolation_scope(sentry_sdk.Scope() if attempt is None else attempt) as scope:
        _describe(scope, failed)
        sentry_sdk.capture_event(event, hint)


def _without_exception(failed: FailedAttempt) -> Any:
    """An event for a timeout, a target, or an exception in a child process, of which only the text is here."""
    kind, _, text = failed.message.partition(": ") if failed.traceback is not None else ("", "", failed.message)
    event: dict[str, Any] = {
        "exception": {"values": [{"type": kind or failed.failure.label, "value": text, "mechanism": _MECHANISM}]},
        "fingerprint": ["duetime", failed.task, kind or failed.failure.label],
    }
    if failed.traceback is not None:
        event["extra"] = {"traceback": failed.traceback}
    return event
