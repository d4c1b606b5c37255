"""A small attack: silent and slow connections, clients that do not read, and headers without an end. `make attack`
makes a large one."""

import os
from urllib.parse import urlsplit

from tests.attack.crowd import Crowd
from tests.attack.measuring import Neighbours, resident_bytes
from tests.support.served import served

MOST_MEMORY = 50 * 1000**2


async def test_others_are_served_during_an_attack(database_url: str) -> None:
    """Attackers and server share this process, so what they all take together is bounded, and no time is."""
    async with served(database_url, max_connections=100) as api:
        place = urlsplit(api.url)
        neighbours = Neighbours(api.url, api.root)
        await neighbours.ask(0.2)
        before = resident_bytes(os.getpid())
        host, port = place.hostname or "", place.port or 0
        crowd = Crowd(host, port, slow=150, mute=150, header_bytes=20 * 10**6, pourers=8)
        async with crowd:
            await neighbours.ask(1.0)
            await crowd.all_poured()
            grown = resident_bytes(os.getpid()) - before
        assert crowd.opened >= 300 and crowd.asked >= 100 and crowd.poured >= 20 * 10**6
        assert not neighbours.failed
        assert grown <= MOST_MEMORY
