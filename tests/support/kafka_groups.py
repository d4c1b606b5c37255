"""The consumer groups of Kafka, as Kafka knows them."""

import asyncio

from confluent_kafka.admin import AdminClient


async def members(admin: AdminClient, group: str) -> set[str]:
    """The names of the consumers in a group. The product must not ask so: when a broker is lost in that moment, Kafka's
    client ends the process."""
    found = await asyncio.wrap_future(admin.describe_consumer_groups([group])[group])
    return {member.client_id for member in found.members}
