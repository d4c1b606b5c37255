"""Opens the places that sources read, by the same rules as targets: the address guard, the operator's list of Kafka
clusters, and secrets that are bound to hosts."""

from collections.abc import Mapping
from typing import assert_never

from duetime.model.source import KafkaSource, RedisSource, SourceBroker, SqsSource
from duetime.streams.external.protocol import Receiver
from duetime.targets.address_guard import Lookup, system_lookup
from duetime.targets.broker_links import server_at
from duetime.targets.broker_rules import BrokerRules, adapter_of, region_of
from duetime.targets.http import guarded_session
from duetime.targets.values import login_of
from duetime.targets.vault import Vault


class Receivers:
    def __init__(self, rules: BrokerRules, vault: Vault, *, lookup: Lookup = system_lookup) -> None:
        self._rules = rules
        self._vault = vault
        self._lookup = lookup

    async def open(self, tenant_id: int, at: SourceBroker, marks: Mapping[str, str]) -> Receiver:
        """Raises `InvalidInput`, `NotFound` for a missing secret, `AddressRefused` and `OSError`."""
        places = self._rules.places(at, "broker")
        module = await adapter_of(at)
        login, password = login_of(at), None
        if login is not None:
            password = await self._vault.value(tenant_id, login.secret, *places)
        match at:
            case KafkaSource():
                opened = module.KafkaReceiver(at, [place.address for place in places], password, marks)
            case RedisSource():
                server = await server_at(places[0], self._rules.guard, self._lookup)
                opened = module.RedisReceiver(at, server, password, marks)
            case SqsSource():
                http = guarded_session(self._rules.guard, self._lookup)
                opened = module.SqsReceiver(at, region_of(at, places[0]), password, http)
            case _:
                assert_never(at)
        receiver: Receiver = opened
        return receiver
