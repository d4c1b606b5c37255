"""Every endpoint once, for both clients: a request with a response, or a list with pages.

A method of the async client returns an awaitable, a method of the blocking client the response itself. The descriptors
tell mypy which.
"""

import functools
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Generic, ParamSpec, TypeVar, overload

from duetime.client import (
    admin_requests,
    archive_requests,
    bulk_requests,
    checkin_requests,
    export_requests,
    figure_requests,
    graph_requests,
    issuer_requests,
    job_requests,
    notification_requests,
    run_requests,
    source_requests,
    target_requests,
    usage_requests,
)
from duetime.client.request import PageOf, Request

P = ParamSpec("P")
T = TypeVar("T")


class AsyncSender(ABC):
    @abstractmethod
    async def send(self, request: Request[T]) -> T: ...

    @abstractmethod
    def walk(self, request: Request[PageOf[T]]) -> AsyncIterator[T]: ...


class BlockingSender(ABC):
    @abstractmethod
    def send(self, request: Request[T]) -> T: ...

    @abstractmethod
    def walk(self, request: Request[PageOf[T]]) -> Iterator[T]: ...


class Sent(Generic[P, T]):
    """A method that sends the request that `build` makes."""

    def __init__(self, build: Callable[P, Request[T]]) -> None:
        self._build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, client: AsyncSender, owner: type) -> Callable[P, Awaitable[T]]: ...

    @overload
    def __get__(self, client: BlockingSender, owner: type) -> Callable[P, T]: ...

    @overload
    def __get__(self, client: None, owner: type) -> "Sent[P, T]": ...

    def __get__(self, client: Any, owner: type) -> Any:
        return self if client is None else _then(self._build, client.send)


class Paged(Generic[P, T]):
    """A method that iterates over all pages of the list that `build` requests."""

    def __init__(self, build: Callable[P, Request[PageOf[T]]]) -> None:
        self._build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, client: AsyncSender, owner: type) -> Callable[P, AsyncIterator[T]]: ...

    @overload
    def __get__(self, client: BlockingSender, owner: type) -> Callable[P, Iterator[T]]: ...

    @overload
    def __get__(self, client: None, owner: type) -> "Paged[P, T]": ...

    def __get__(self, client: Any, owner: type) -> Any:
        return self if client is None else _then(self._build, client.walk)


def _then(build: Callable[..., Request[Any]], use: Callable[[Request[Any]], Any]) -> Callable[..., Any]:
    @functools.wraps(build)
    def method(*args: Any, **kwargs: Any) -> Any:
        return use(build(*args, **kwargs))

    return method


class Endpoints:
    create_job = Sent(job_requests.create_job)
    create_jobs = Sent(job_requests.create_jobs)
    list_jobs = Sent(job_requests.list_jobs)
    jobs = Paged(job_requests.list_jobs)
    get_job = Sent(job_requests.get_job)
    change_job = Sent(job_requests.change_job)
    delete_job = Sent(job_requests.delete_job)
    cancel_job = Sent(job_requests.cancel_job)
    pause_job = Sent(job_requests.pause_job)
    resume_job = Sent(job_requests.resume_job)
    trigger_job = Sent(job_requests.trigger_job)
    backfill_job = Sent(job_requests.backfill_job)
    get_job_status = Sent(job_requests.get_job_status)
    list_runs = Sent(run_requests.list_runs)
    runs = Paged(run_requests.list_runs)
    list_runs_of_job = Sent(run_requests.list_runs_of_job)
    runs_of_job = Paged(run_requests.list_runs_of_job)
    get_run = Sent(run_requests.get_run)
    explain_run = Sent(run_requests.explain_run)
    explain_job = Sent(run_requests.explain_job)
    cancel_run = Sent(run_requests.cancel_run)
    retry_run = Sent(run_requests.retry_run)
    list_parents = Sent(graph_requests.list_parents)
    parents = Paged(graph_requests.list_parents)
    create_graph = Sent(graph_requests.create_graph)
    list_graphs = Sent(graph_requests.list_graphs)
    graphs = Paged(graph_requests.list_graphs)
    get_graph = Sent(graph_requests.get_graph)
    cancel_graph = Sent(graph_requests.cancel_graph)
    rerun_graph = Sent(graph_requests.rerun_graph)
    list_archive = Sent(archive_requests.list_archive)
    archived_days = Paged(archive_requests.list_archive)
    list_archived_runs = Sent(archive_requests.list_archived_runs)
    archived_runs = Paged(archive_requests.list_archived_runs)
    restore_archive = Sent(archive_requests.restore_archive)
    erase_archive = Sent(archive_requests.erase_archive)
    get_archive = Sent(archive_requests.get_archive)
    run_archive = Sent(archive_requests.run_archive)
    stop_archive = Sent(archive_requests.stop_archive)
    list_dead_letters = Sent(run_requests.list_dead_letters)
    dead_letters = Paged(run_requests.list_dead_letters)
    group_dead_letters = Sent(run_requests.group_dead_letters)
    replay_dead_letters = Sent(run_requests.replay_dead_letters)
    discard_dead_letters = Sent(run_requests.discard_dead_letters)
    preview_bulk_action = Sent(bulk_requests.preview_bulk_action)
    create_bulk_action = Sent(bulk_requests.create_bulk_action)
    list_bulk_actions = Sent(bulk_requests.list_bulk_actions)
    get_bulk_action = Sent(bulk_requests.get_bulk_action)
    stop_bulk_action = Sent(bulk_requests.stop_bulk_action)
    preview_schedule = Sent(run_requests.preview_schedule)
    list_calendars = Sent(run_requests.list_calendars)
    get_calendar = Sent(run_requests.get_calendar)
    put_calendar = Sent(run_requests.put_calendar)
    delete_calendar = Sent(run_requests.delete_calendar)
    list_sources = Sent(source_requests.list_sources)
    get_source = Sent(source_requests.get_source)
    put_source = Sent(source_requests.put_source)
    pause_source = Sent(source_requests.pause_source)
    resume_source = Sent(source_requests.resume_source)
    delete_source = Sent(source_requests.delete_source)
    list_issuers = Sent(issuer_requests.list_issuers)
    get_issuer = Sent(issuer_requests.get_issuer)
    put_issuer = Sent(issuer_requests.put_issuer)
    delete_issuer = Sent(issuer_requests.delete_issuer)
    list_subscriptions = Sent(notification_requests.list_subscriptions)
    put_subscription = Sent(notification_requests.put_subscription)
    delete_subscription = Sent(notification_requests.delete_subscription)
    test_subscription = Sent(notification_requests.test_subscription)
    list_alerts = Sent(notification_requests.list_alerts)
    put_alert = Sent(notification_requests.put_alert)
    delete_alert = Sent(notification_requests.delete_alert)
    list_checkins = Sent(checkin_requests.list_checkins)
    get_checkin = Sent(checkin_requests.get_checkin)
    put_checkin = Sent(checkin_requests.put_checkin)
    pause_checkin = Sent(checkin_requests.pause_checkin)
    resume_checkin = Sent(checkin_requests.resume_checkin)
    rotate_checkin = Sent(checkin_requests.rotate_checkin)
    delete_checkin = Sent(checkin_requests.delete_checkin)
    ping = Sent(checkin_requests.ping)
    ping_event = Sent(checkin_requests.ping_event)
    ping_with_note = Sent(checkin_requests.ping_with_note)
    ping_event_with_note = Sent(checkin_requests.ping_event_with_note)
    list_queues = Sent(run_requests.list_queues)
    get_queue = Sent(run_requests.get_queue)
    get_demand = Sent(run_requests.get_demand)
    put_queue = Sent(run_requests.put_queue)
    pause_queue = Sent(run_requests.pause_queue)
    resume_queue = Sent(run_requests.resume_queue)
    list_breakers = Sent(run_requests.list_breakers)
    reset_breaker = Sent(run_requests.reset_breaker)
    list_workers = Sent(run_requests.list_workers)
    list_tasks = Sent(run_requests.list_tasks)
    get_task = Sent(run_requests.get_task)
    create_payload = Sent(run_requests.create_payload)
    get_payload = Sent(run_requests.get_payload)
    erase_payload = Sent(run_requests.erase_payload)
    list_secrets = Sent(target_requests.list_secrets)
    put_secret = Sent(target_requests.put_secret)
    delete_secret = Sent(target_requests.delete_secret)
    list_signing_secrets = Sent(target_requests.list_signing_secrets)
    rotate_signing_secret = Sent(target_requests.rotate_signing_secret)
    complete_run = Sent(target_requests.complete_run)
    get_stats = Sent(figure_requests.get_stats)
    get_trends = Sent(figure_requests.get_trends)
    list_fires = Sent(figure_requests.list_fires)
    list_recent_runs = Sent(figure_requests.list_recent_runs)
    get_me = Sent(figure_requests.get_me)
    list_tenants = Sent(admin_requests.list_tenants)
    tenants = Paged(admin_requests.list_tenants)
    create_tenant = Sent(admin_requests.create_tenant)
    get_tenant = Sent(admin_requests.get_tenant)
    change_tenant = Sent(admin_requests.change_tenant)
    begin_export = Sent(export_requests.begin_export)
    export_section = Sent(export_requests.export_section)
    get_usage = Sent(usage_requests.get_usage)
    list_usage = Sent(usage_requests.list_usage)
    usage = Paged(usage_requests.list_usage)
    get_defaults = Sent(admin_requests.get_defaults)
    set_defaults = Sent(admin_requests.set_defaults)
    change_defaults = Sent(admin_requests.change_defaults)
    delete_tenant = Sent(admin_requests.delete_tenant)
    undelete_tenant = Sent(admin_requests.undelete_tenant)
    list_erasures = Sent(admin_requests.list_erasures)
    erasures = Paged(admin_requests.list_erasures)
    get_erasure = Sent(admin_requests.get_erasure)
    list_keys = Sent(admin_requests.list_keys)
    keys = Paged(admin_requests.list_keys)
    create_key = Sent(admin_requests.create_key)
    rotate_key = Sent(admin_requests.rotate_key)
    revoke_key = Sent(admin_requests.revoke_key)
    list_sessions = Sent(admin_requests.list_sessions)
    sessions = Paged(admin_requests.list_sessions)
    revoke_session = Sent(admin_requests.revoke_session)
    create_login_link = Sent(admin_requests.create_login_link)
    get_login_methods = Sent(admin_requests.get_login_methods)
    list_audit = Sent(admin_requests.list_audit)
    audit = Paged(admin_requests.list_audit)
    get_encryption = Sent(admin_requests.get_encryption)
    re_encrypt = Sent(admin_requests.re_encrypt)
    register_worker = Sent(admin_requests.register_worker)
    claim_runs = Sent(admin_requests.claim_runs)
    heartbeat = Sent(admin_requests.heartbeat)
    get_held_parents = Sent(admin_requests.get_held_parents)
    complete_runs = Sent(admin_requests.complete_runs)
    note_progress = Sent(admin_requests.note_progress)
    compare_runs = Sent(admin_requests.compare_runs)
    hand_back_runs = Sent(admin_requests.hand_back_runs)
    delete_worker = Sent(admin_requests.delete_worker)
    get_held_payload = Sent(admin_requests.get_held_payload)
    livez = Sent(admin_requests.livez)
    readyz = Sent(admin_requests.readyz)
    metrics = Sent(admin_requests.metrics)
    openapi = Sent(admin_requests.openapi)
