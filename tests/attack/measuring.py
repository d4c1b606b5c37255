"""What other clients notice of an attack, and how much memory the server takes."""

import asyncio
import math
from collections.abc import Sequence
from pathlib import Path

import aiohttp

from duetime.clock import monotonic


def resident_bytes(pid: int) -> int:
    """The memory of a process, as the system has it."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(pid)


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


class Neighbours:
    """Clients that go about their work: they read and submit, each after the other."""

    def __init__(self, url: str, key: str) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {key}"}
        self.took: list[float] = []
        """Seconds of each request."""
        self.failed: list[str] = []

    async def ask(self, seconds: float, clients: int = 4) -> None:
        async with aiohttp.ClientSession(headers=self._headers) as http:
            until = monotonic() + seconds
            await asyncio.gather(*(self._client(http, until, number) for number in range(clients)))

    async def _client(self, http: aiohttp.ClientSession, until: float, number: int) -> None:
        while monotonic() < until:
            began = monotonic()
            try:
                if number % 2:
                    answering = http.post(f"{self._url}/v1/jobs", json={"task": "t", "run_in": 3600})
                else:
                    answering = http.get(f"{self._url}/v1/jobs")
                async with asyncio.timeout(10.0), answering as answer:
                    await answer.read()
                    if answer.status >= 400:
                        self.failed.append(f"{answer.status}")
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                self.failed.append(repr(error))
            self.took.append(monotonic() - began)
            await asyncio.sleep(0.02)
