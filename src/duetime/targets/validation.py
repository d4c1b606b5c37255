"""From a requested target to one that can be stored: everything visibly wrong is refused here."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, NamedTuple, assert_never

import msgspec

from duetime.duration import parse_duration
from duetime.errors import InvalidInput
from duetime.model.target import (
    GRPC,
    HTTP,
    KUBERNETES,
    SHELL,
    AtBroker,
    AtKafka,
    AtRabbit,
    AtRedis,
    AtSqs,
    AwsSignature,
    GrpcTarget,
    HttpTarget,
    KafkaTarget,
    KubernetesTarget,
    RabbitTarget,
    RedisTarget,
    ShellTarget,
    SqsTarget,
    Target,
    plain_target,
    task_for,
)
from duetime.settings import Settings
from duetime.targets.address_guard import AddressGuard
from duetime.targets.aws import require_aws
from duetime.targets.broker_rules import BrokerRules, kind_of_broker
from duetime.targets.cloud_access import CloudAccess, read_cloud_access
from duetime.targets.commands import Commands, read_commands
from duetime.targets.kube_job import check_job, place_of_jobs
from duetime.targets.messages import check_message
from duetime.targets.url import Place, check_address, check_url
from duetime.targets.values import NamedSecret, check_auth, check_values, named_secrets

LONGEST_FINISH = timedelta(days=30)


class MadeTarget(NamedTuple):
    """A target as a job stores it: a reserved task, and arguments."""

    task: str
    args: dict[str, Any]


class TargetRules:
    """What may be called, by the settings of this process."""

    def __init__(self, settings: Settings) -> None:
        self.guard = AddressGuard(settings.allowed_networks)
        self.brokers = BrokerRules(self.guard, settings.kafka_clusters)
        self._settings = settings
        self._commands: Commands | None = None
        self._cloud: CloudAccess | None = None

    @property
    def commands(self) -> Commands:
        """The allowed commands; read once, on demand."""
        if self._commands is None:
            self._commands = read_commands(self._settings.shell_commands)
        return self._commands

    def make(self, target: object, callback_url: object = None, args: Mapping[str, Any] | None = None) -> MadeTarget:
        """The job's task and arguments for a target. A `callback_url` is the short form: its body is the `args`."""
        if callback_url is not None:
            if target is not None:
                raise InvalidInput("cannot be combined with target", field="callback_url", remedy="set one of them")
            if not isinstance(callback_url, str):
                raise InvalidInput("is not a URL", field="callback_url", remedy="such as https://example.com/hook")
            place = check_url(callback_url, self.guard, "callback_url")
            made = HttpTarget(url=callback_url, body=dict(args or {}))
            return MadeTarget(task_for(HTTP, place.name), plain_target(made))
        if args:
            raise InvalidInput("cannot be combined with target", field="args", remedy="put them into target.body")
        return self._make(as_target(target))

    @property
    def cloud(self) -> CloudAccess:
        """What tenants may do with the service's own cloud credentials; read once, on demand."""
        if self._cloud is None:
            self._cloud = read_cloud_access(self._settings.cloud_access)
        return self._cloud

    def secrets(self, target: Target | AtBroker, field: str = "target") -> Iterator[tuple[NamedSecret, list[Place]]]:
        """The secrets that a target references, each with the places that it goes to."""
        for named in named_secrets(target, field):
            others = [check_url(url, self.guard, where) for where, url in named.also_at]
            yield named, [*self.places(target, field), *others]

    def places(self, target: Target | AtBroker, field: str = "target") -> tuple[Place, ...]:
        """Where a target, or what reads from a broker, connects to. Raises `InvalidInput`."""
        match target:
            case HttpTarget():
                return (check_url(target.url, self.guard),)
            case GrpcTarget():
                return (check_address(target.address, self.guard, tls=target.tls),)
            case AtKafka() | AtRedis() | AtSqs() | AtRabbit():
                return self.brokers.places(target, field)
            case KubernetesTarget():
                return (place_of_jobs(target),)
            case ShellTarget():
                return ()
            case _:
                assert_never(target)

    def _make(self, target: Target) -> MadeTarget:
        places = self.places(target)
        match target:
            case HttpTarget():
                check_values(target.headers, "target.headers")
                _check_wait(target)
                self._check_auth(target)
                return MadeTarget(task_for(HTTP, places[0].name), plain_target(target))
            case GrpcTarget():
                check_values(target.metadata, "target.metadata", metadata=True)
                check_message(target)
                return MadeTarget(task_for(GRPC, places[0].name), plain_target(target))
            case KafkaTarget() | RedisTarget() | SqsTarget() | RabbitTarget():
                self.brokers.check_message(target)
                return MadeTarget(task_for(kind_of_broker(target).task, places[0].name), plain_target(target))
            case KubernetesTarget():
                check_job(target)
                return MadeTarget(task_for(KUBERNETES, f"{target.namespace}.{target.cluster}"), plain_target(target))
            case ShellTarget():
                self.commands.fill(target.command, target.args)
                return MadeTarget(task_for(SHELL, target.command), plain_target(target))
            case _:
                assert_never(target)

    def _check_auth(self, target: HttpTarget) -> None:
        check_auth(target)
        if isinstance(target.auth, AwsSignature):
            require_aws()
        elif target.auth is not None:
            check_url(target.auth.token_url, self.guard, "target.auth.token_url")


def as_target(value: object) -> Target:
    """A target from a dict; a target is returned as it is."""
    if isinstance(value, Target):
        return value
    if not isinstance(value, Mapping):
        raise InvalidInput(
            f"must be a dict, not {type(value).__name__}", field="target", remedy="such as {'type': 'http', 'url': …}"
        )
    try:
        found: Target = msgspec.convert(dict(value), Target)
        return found
    except msgspec.ValidationError as error:
        raise InvalidInput(str(error), field="target", remedy="docs/targets.md lists its fields") from None


def _check_wait(target: HttpTarget) -> None:
    if target.finish_within is None:
        return
    try:
        wait = parse_duration(target.finish_within)
    except (ValueError, TypeError) as error:
        raise InvalidInput(str(error), field="target.finish_within", remedy="such as 30m") from None
    if not timedelta(0) < wait <= LONGEST_FINISH:
        raise InvalidInput(
            f"{target.finish_within} is out of range",
            field="target.finish_within",
            remedy="more than zero, at most 30 days",
        )
