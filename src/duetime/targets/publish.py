"""Targets that publish: one message to Kafka, Redis, SQS or RabbitMQ.

    acknowledged by the broker                               succeeded
    refused: no such topic, no permission, too large         failed without retry
    not reached, no answer, not now                          retried; the message may have been published

Every attempt of a run sends the same `idempotency-key`, so that a consumer can detect a repetition.
"""

import asyncio
import logging
from hashlib import blake2b
from typing import assert_never

import msgspec

from duetime.errors import MessageRefused, StreamUnavailable
from duetime.model.failure import Failure, FailureClass, bounded
from duetime.model.outcome import Failed, Outcome, Succeeded
from duetime.model.target import AtBroker, AtKafka, AtRabbit, AtRedis, AtSqs, BrokerTarget
from duetime.streams.external.protocol import Message, Publisher
from duetime.targets.address_guard import Lookup, refused_address, system_lookup, without_addresses
from duetime.targets.broker_links import BrokerLinks, server_at
from duetime.targets.broker_rules import BrokerRules, adapter_of, region_of
from duetime.targets.http import guarded_session
from duetime.targets.not_sent import NOT_SENT, not_sent
from duetime.targets.target_attempt import TargetAttempt
from duetime.targets.url import Place
from duetime.targets.values import encoded_body, filled, login_of
from duetime.targets.vault import Vault

log = logging.getLogger("duetime.targets")

_ERROR_TEXT = 500


class BrokerCaller:
    def __init__(self, rules: BrokerRules, vault: Vault, *, lookup: Lookup = system_lookup) -> None:
        self._rules = rules
        self._vault = vault
        self._lookup = lookup
        self._links = BrokerLinks()

    async def publish(self, target: BrokerTarget, attempt: TargetAttempt) -> Outcome:
        try:
            async with asyncio.timeout(attempt.limit):
                return Succeeded(msgspec.json.encode(await self._publish(target, attempt)))
        except TimeoutError:
            text = f"no acknowledgement within {attempt.limit:g} s: the message may have been published"
            return Failed(Failure(FailureClass.TIMEOUT, text))
        except NOT_SENT as error:
            return not_sent(error, "not published")
        except MessageRefused as error:
            return Failed(Failure(FailureClass.TARGET_REFUSED, _shown(error, attempt)))
        except (StreamUnavailable, OSError) as error:
            refused = refused_address(error)
            if refused is not None:
                return not_sent(refused, "not published")
            return Failed(Failure(FailureClass.NETWORK, _shown(error, attempt)))

    async def close(self) -> None:
        await self._links.close()

    async def _publish(self, target: BrokerTarget, attempt: TargetAttempt) -> dict[str, object]:
        places = self._rules.places(target)
        headers = {
            name.lower(): value for name, value in (await filled(target.headers, self._vault, attempt, *places)).items()
        }
        message = Message(attempt.message_id, headers | attempt.headers(), encoded_body(target.body))
        login, password = login_of(target), None
        if login is not None:
            password = await self._vault.value(attempt.tenant_id, login.secret, *places)
            attempt.redactor.learn(password)
        digest = None if password is None else blake2b(password.encode()).digest()
        limit = attempt.limit if isinstance(target, AtKafka) else 0.0
        key = (attempt.tenant_id, *connection_fields(target), digest, limit)
        async with self._links.link(key, lambda: self._open(target, places, password, limit)) as publisher:
            return await publisher.publish(target, message)

    async def _open(self, at: AtBroker, places: tuple[Place, ...], password: str | None, limit: float) -> Publisher:
        module = await adapter_of(at)
        match at:
            case AtKafka():
                opened = module.KafkaPublisher(at, [place.address for place in places], password, limit)
            case AtRedis():
                server = await server_at(places[0], self._rules.guard, self._lookup)
                opened = module.RedisPublisher(at, server, password)
            case AtRabbit():
                server = await server_at(places[0], self._rules.guard, self._lookup)
                opened = module.RabbitPublisher(at, server, password)
            case AtSqs():
                http = guarded_session(self._rules.guard, self._lookup)
                opened = module.SqsPublisher(at, region_of(at, places[0]), password, http)
            case _:
                assert_never(at)
        publisher: Publisher = opened
        return publisher


def connection_fields(at: AtBroker) -> tuple[object, ...]:
    """What two uses must have in common to share a connection."""
    match at:
        case AtKafka():
            return ("kafka", at.address, at.tls, at.username, at.mechanism)
        case AtRedis():
            return ("redis", at.address, at.database, at.tls, at.username)
        case AtRabbit():
            return ("rabbitmq", at.address, at.vhost, at.tls, at.username)
        case AtSqs():
            return ("sqs", at.queue_url, at.region, at.access_key_id)
        case _:
            assert_never(at)


def _shown(error: BaseException, attempt: TargetAttempt) -> str:
    text = attempt.redactor.text(str(error) or type(error).__name__)
    shown = without_addresses(text)
    if shown != text:
        log.info("cannot publish: %s", text)
    return bounded(shown, _ERROR_TEXT)
