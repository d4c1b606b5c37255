"""The target runner executes one attempt of a run with a target and returns its outcome.

The target was validated on submission, and is validated again with the settings of the process that executes it. Every
error becomes an outcome.
"""

import logging
import traceback
from collections.abc import Callable
from datetime import timedelta
from importlib.util import find_spec
from typing import assert_never

import msgspec

from duetime.errors import Conflict, DuetimeError, InvalidInput, NotFound, StoreUnavailable, reason_of
from duetime.ids import show
from duetime.model.attempt import Claimed
from duetime.model.failure import Failure, FailureClass, bounded
from duetime.model.lane import LaneKey
from duetime.model.outcome import Failed, Outcome, Snoozed
from duetime.model.target import (
    EMAIL,
    GRPC,
    HTTP,
    KUBERNETES,
    SHELL,
    EmailTarget,
    GrpcTarget,
    HttpTarget,
    KafkaTarget,
    KubernetesTarget,
    RabbitTarget,
    RedisTarget,
    ShellTarget,
    SqsTarget,
    decode_target,
)
from duetime.settings import Settings
from duetime.store.address import sealer_of
from duetime.store.protocol.store import Store
from duetime.targets.address_guard import Lookup, system_lookup
from duetime.targets.authorization import Authorization, TenantNames
from duetime.targets.broker_rules import BROKER_KINDS
from duetime.targets.completion_link import CompletionLinks
from duetime.targets.email import Mailer
from duetime.targets.grpc import GrpcCaller
from duetime.targets.http import HttpCaller
from duetime.targets.kubernetes import KubernetesRunner
from duetime.targets.publish import BrokerCaller
from duetime.targets.shell import ShellRunner
from duetime.targets.target_attempt import TargetAttempt
from duetime.targets.validation import TargetRules
from duetime.targets.vault import Vault

_log = logging.getLogger("duetime.targets")

_STORE_AWAY = timedelta(seconds=1)


class TargetRunner:
    def __init__(
        self, store: Store, settings: Settings, links: CompletionLinks, *, lookup: Lookup = system_lookup
    ) -> None:
        self._store = store
        self._limit = settings.target_timeout.total_seconds()
        self._rules = TargetRules(settings)
        self._shell = settings.shell_commands is not None
        vault = Vault(store, sealer_of(store, settings))
        sizes = {"max_response": settings.max_response, "max_result": settings.max_result}
        names = TenantNames(store)
        authorization = Authorization(self._rules.cloud, vault, self._rules.guard, names)
        self._http = HttpCaller(self._rules.guard, vault, links, authorization, lookup=lookup, **sizes)
        self._grpc = GrpcCaller(self._rules.guard, vault, lookup=lookup, max_result=settings.max_result)
        self._brokers = BrokerCaller(self._rules.brokers, vault, lookup=lookup)
        self._kubernetes = KubernetesRunner(
            self._rules.cloud, vault, store, names, max_result=settings.max_result, max_log_lines=settings.max_log_lines
        )
        self._mail = Mailer(settings)
        self._commands = ShellRunner(self._rules.commands, max_result=settings.max_result)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The kinds of targets that this process can execute."""
        brokers = (kind.task for kind in BROKER_KINDS if find_spec(kind.library) is not None)
        clusters = (KUBERNETES,) if self._rules.cloud.has_clusters else ()
        return (HTTP, GRPC, EMAIL, *brokers, *clusters, *((SHELL,) if self._shell else ()))

    def begin(self) -> None:
        """Start what runs beside attempts."""
        if self._rules.cloud.has_clusters:
            self._kubernetes.begin()

    async def run(
        self,
        claimed: Claimed,
        lane: LaneKey,
        *,
        log: Callable[[str], None] = lambda text: None,
        goes_on: Callable[[], bool] = lambda: False,
    ) -> Outcome:
        """`log` adds a line to the log of the run. `goes_on` says, of a cancelled attempt, whether another worker goes
        on with what it has started."""
        limit = self._limit if claimed.timeout_ms is None else claimed.timeout_ms / 1000
        attempt = TargetAttempt(lane.tenant_id, claimed, show("run", claimed.run_id), limit, log, goes_on)
        try:
            outcome = attempt.redactor.outcome(await self._carry_out(attempt))
        except InvalidInput as error:
            return Failed(Failure(FailureClass.TARGET_REFUSED, attempt.redactor.text(f"not called: {error}")))
        except StoreUnavailable as error:
            # Secrets and keys are read from the store before the call, so this error costs no attempt.
            _log.warning("%s is not called yet: %s", show("run", claimed.run_id), reason_of(error))
            return Snoozed(_STORE_AWAY)
        except Exception as error:
            text = bounded(attempt.redactor.text(f"{type(error).__name__}: {error}"), 1000)
            trace = attempt.redactor.text("".join(traceback.format_exception(error)))
            _log.error("%s failed unexpectedly\n%s", show("run", claimed.run_id), trace)
            return Failed(Failure(FailureClass.ERROR, text))
        if isinstance(outcome, Failed) and outcome.failure.pauses_job:
            await self._pause(attempt)
        return outcome

    async def close(self) -> None:
        await self._http.close()
        await self._grpc.close()
        await self._brokers.close()
        await self._kubernetes.close()

    async def _carry_out(self, attempt: TargetAttempt) -> Outcome:
        try:
            target = decode_target(attempt.claimed.args)
        except msgspec.DecodeError as error:
            raise InvalidInput(f"the stored target is invalid: {error}") from None
        match target:
            case HttpTarget():
                return await self._http.call(target, attempt)
            case ShellTarget():
                return await self._commands.run(target, attempt)
            case GrpcTarget():
                return await self._grpc.call(target, attempt)
            case KafkaTarget() | RedisTarget() | SqsTarget() | RabbitTarget():
                return await self._brokers.publish(target, attempt)
            case KubernetesTarget():
                return await self._kubernetes.run(target, attempt)
            case EmailTarget():
                return await self._mail.send(target, attempt.message_id, attempt.limit)
            case _:
                assert_never(target)

    async def _pause(self, attempt: TargetAttempt) -> None:
        """Stop further fires; a one-off job has nothing to pause."""
        try:
            await self._store.control.pause_job(attempt.tenant_id, attempt.claimed.job_id)
        except (Conflict, NotFound):
            return
        except DuetimeError as error:
            _log.warning("cannot pause %s: %s", show("job", attempt.claimed.job_id), reason_of(error))
            return
        _log.warning("%s is paused: its receiver answered 410 Gone", show("job", attempt.claimed.job_id))
