"""The brokers that stream queues are tested with: those in DUETIME_TEST_BROKERS, or all.

`make test` tests with Redis, because the others would add minutes to it; `make brokers` tests with all of them.
"""

import os
from functools import cache

import pytest

from tests.support.broker_server import BrokerServer
from tests.support.jvm_servers import KafkaServer, SqsServer
from tests.support.rabbit_server import RabbitServer
from tests.support.redis_server import RedisServer

BROKERS: tuple[type[BrokerServer], ...] = (RedisServer, RabbitServer, KafkaServer, SqsServer)
TESTED = os.environ.get("DUETIME_TEST_BROKERS", "").split()


@cache
def running(kind: type[BrokerServer]) -> BrokerServer:
    """One server of a kind per test process, started when first asked for; ends with the process."""
    if TESTED and kind.kind not in TESTED:
        pytest.skip(f"{kind.kind} is left to `make brokers`")
    if (reason := kind.missing()) is not None:
        pytest.skip(reason)
    server = kind()
    server.start()
    return server
