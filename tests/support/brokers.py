"""The brokers that stream queues are tested with."""

from functools import cache

import pytest

from tests.support.broker_server import BrokerServer
from tests.support.jvm_servers import KafkaServer, SqsServer
from tests.support.rabbit_server import RabbitServer
from tests.support.redis_server import RedisServer

BROKERS: tuple[type[BrokerServer], ...] = (RedisServer, RabbitServer, KafkaServer, SqsServer)


@cache
def running(kind: type[BrokerServer]) -> BrokerServer:
    """One server of a kind per test process, started when first asked for; ends with the process."""
    if (reason := kind.missing()) is not None:
        pytest.skip(reason)
    server = kind()
    server.start()
    return server
