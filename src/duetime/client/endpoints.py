"""Every endpoint once, for both clients: a request that is sent and answered, or a list that is gone through.

What a method gives depends on whom it is asked of: the async client's gives something to await, the blocking one's the
answer itself. mypy knows which, for a descriptor may say so.
"""

import functools
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Generic, ParamSpec, TypeVar, overload

from duetime.client import admin_asks, figure_asks, graph_asks, job_asks, notification_asks, run_asks, target_asks
from duetime.client.ask import Ask, PageOf

P = ParamSpec("P")
T = TypeVar("T")


class AsyncSender(ABC):
    @abstractmethod
    async def send(self, ask: Ask[T]) -> T: ...

    @abstractmethod
    def walk(self, ask: Ask[PageOf[T]]) -> AsyncIterator[T]: ...


class BlockingSender(ABC):
    @abstractmethod
    def send(self, ask: Ask[T]) -> T: ...

    @abstractmethod
    def walk(self, ask: Ask[PageOf[T]]) -> Iterator[T]: ...


class Sent(Generic[P, T]):
    """A method that sends what `build` makes."""

    def __init__(self, build: Callable[P, Ask[T]]) -> None:
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
    """A method that goes through all pages of what `build` asks for."""

    def __init__(self, build: Callable[P, Ask[PageOf[T]]]) -> None:
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


def _then(build: Callable[..., Ask[Any]], use: Callable[[Ask[Any]], Any]) -> Callable[..., Any]:
    @functools.wraps(build)
    def method(*args: Any, **kwargs: Any) -> Any:
        return use(build(*args, **kwargs))

    return method


class Endpoints:
    create_job = Sent(job_asks.create_job)
    create_jobs = Sent(job_asks.create_jobs)
    list_jobs = Sent(job_asks.list_jobs)
    jobs = Paged(job_asks.list_jobs)
    get_job = Sent(job_asks.get_job)
    change_job = Sent(job_asks.change_job)
    delete_job = Sent(job_asks.delete_job)
    cancel_job = Sent(job_asks.cancel_job)
    pause_job = Sent(job_asks.pause_job)
    resume_job = Sent(job_asks.resume_job)
    trigger_job = Sent(job_asks.trigger_job)
    backfill_job = Sent(job_asks.backfill_job)
    get_job_status = Sent(job_asks.get_job_status)
    list_runs = Sent(run_asks.list_runs)
    runs = Paged(run_asks.list_runs)
    list_runs_of_job = Sent(run_asks.list_runs_of_job)
    runs_of_job = Paged(run_asks.list_runs_of_job)
    get_run = Sent(run_asks.get_run)
    cancel_run = Sent(run_asks.cancel_run)
    retry_run = Sent(run_asks.retry_run)
    list_parents = Sent(graph_asks.list_parents)
    parents = Paged(graph_asks.list_parents)
    create_graph = Sent(graph_asks.create_graph)
    list_graphs = Sent(graph_asks.list_graphs)
    graphs = Paged(graph_asks.list_graphs)
    get_graph = Sent(graph_asks.get_graph)
    cancel_graph = Sent(graph_asks.cancel_graph)
    rerun_graph = Sent(graph_asks.rerun_graph)
    list_dead_letters = Sent(run_asks.list_dead_letters)
    dead_letters = Paged(run_asks.list_dead_letters)
    group_dead_letters = Sent(run_asks.group_dead_letters)
    replay_dead_letters = Sent(run_asks.replay_dead_letters)
    discard_dead_letters = Sent(run_asks.discard_dead_letters)
    preview_schedule = Sent(run_asks.preview_schedule)
    list_calendars = Sent(run_asks.list_calendars)
    get_calendar = Sent(run_asks.get_calendar)
    put_calendar = Sent(run_asks.put_calendar)
    delete_calendar = Sent(run_asks.delete_calendar)
    list_subscriptions = Sent(notification_asks.list_subscriptions)
    put_subscription = Sent(notification_asks.put_subscription)
    delete_subscription = Sent(notification_asks.delete_subscription)
    list_alerts = Sent(notification_asks.list_alerts)
    put_alert = Sent(notification_asks.put_alert)
    delete_alert = Sent(notification_asks.delete_alert)
    list_queues = Sent(run_asks.list_queues)
    get_queue = Sent(run_asks.get_queue)
    put_queue = Sent(run_asks.put_queue)
    pause_queue = Sent(run_asks.pause_queue)
    resume_queue = Sent(run_asks.resume_queue)
    list_breakers = Sent(run_asks.list_breakers)
    reset_breaker = Sent(run_asks.reset_breaker)
    list_workers = Sent(run_asks.list_workers)
    list_tasks = Sent(run_asks.list_tasks)
    create_payload = Sent(run_asks.create_payload)
    get_payload = Sent(run_asks.get_payload)
    erase_payload = Sent(run_asks.erase_payload)
    list_secrets = Sent(target_asks.list_secrets)
    put_secret = Sent(target_asks.put_secret)
    delete_secret = Sent(target_asks.delete_secret)
    list_signing_secrets = Sent(target_asks.list_signing_secrets)
    rotate_signing_secret = Sent(target_asks.rotate_signing_secret)
    complete_run = Sent(target_asks.complete_run)
    get_stats = Sent(figure_asks.get_stats)
    list_fires = Sent(figure_asks.list_fires)
    list_recent_runs = Sent(figure_asks.list_recent_runs)
    get_me = Sent(figure_asks.get_me)
    list_tenants = Sent(admin_asks.list_tenants)
    tenants = Paged(admin_asks.list_tenants)
    create_tenant = Sent(admin_asks.create_tenant)
    get_tenant = Sent(admin_asks.get_tenant)
    change_tenant = Sent(admin_asks.change_tenant)
    list_keys = Sent(admin_asks.list_keys)
    keys = Paged(admin_asks.list_keys)
    create_key = Sent(admin_asks.create_key)
    rotate_key = Sent(admin_asks.rotate_key)
    revoke_key = Sent(admin_asks.revoke_key)
    list_sessions = Sent(admin_asks.list_sessions)
    sessions = Paged(admin_asks.list_sessions)
    revoke_session = Sent(admin_asks.revoke_session)
    create_login_link = Sent(admin_asks.create_login_link)
    list_audit = Sent(admin_asks.list_audit)
    audit = Paged(admin_asks.list_audit)
    get_encryption = Sent(admin_asks.get_encryption)
    re_encrypt = Sent(admin_asks.re_encrypt)
    register_worker = Sent(admin_asks.register_worker)
    claim_runs = Sent(admin_asks.claim_runs)
    heartbeat = Sent(admin_asks.heartbeat)
    get_held_parents = Sent(admin_asks.get_held_parents)
    complete_runs = Sent(admin_asks.complete_runs)
    note_progress = Sent(admin_asks.note_progress)
    compare_runs = Sent(admin_asks.compare_runs)
    hand_back_runs = Sent(admin_asks.hand_back_runs)
    delete_worker = Sent(admin_asks.delete_worker)
    get_held_payload = Sent(admin_asks.get_held_payload)
    livez = Sent(admin_asks.livez)
    readyz = Sent(admin_asks.readyz)
    metrics = Sent(admin_asks.metrics)
    openapi = Sent(admin_asks.openapi)
