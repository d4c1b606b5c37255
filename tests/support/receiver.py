"""A receiver of HTTP calls: a real server on a free port that remembers every request, and answers as it is told."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.support.waiting import eventually

Answer = tuple[int, Mapping[str, str], bytes]


@dataclass(frozen=True)
class Received:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Receiver:
    """What it answers is taken from `answers` in order; the last one stays."""

    port: int = 0
    requests: list[Received] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=lambda: [(200, {}, b"thanks")])
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]] | None = None
    connections: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.requests.append(Received(request.method, request.path_qs, headers, body))
        if self.handler is not None:
            return await self.handler(request)  # type: ignore[arg-type]
        status, headers_back, text = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return web.Response(status=status, headers=headers_back, body=text)

    async def got(self, count: int) -> list[Received]:
        """The first requests, once there are so many."""
        await eventually(lambda: len(self.requests) >= count)
        return self.requests[:count]


@asynccontextmanager
async def receiving(*answers: Answer, host: str = "127.0.0.1") -> AsyncIterator[Receiver]:
    receiver = Receiver()
    if answers:
        receiver.answers = list(answers)
    runner = web.ServerRunner(web.Server(receiver.handle), handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, host, 0)
    await site.start()
    receiver.port = runner.addresses[0][1]
    try:
        yield receiver
    finally:
        await runner.cleanup()
