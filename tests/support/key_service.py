"""A key service as `docs/encryption.md` describes it: a real server on a free port that wraps and unwraps data keys."""

import os
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

TOKEN = "kms-token"


@dataclass
class KeyService:
    port: int = 0
    keys: dict[str, bytes] = field(default_factory=lambda: {"kek-1": os.urandom(32), "kek-2": os.urandom(32)})
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    status: int | None = None
    """What it answers to everything, instead of doing it."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def count(self, what: str) -> int:
        return sum(1 for asked, _ in self.asked if asked == what)

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.json()
        what = request.path.rpartition("/")[2]
        self.asked.append((what, body))
        if self.status is not None:
            return web.Response(status=self.status)
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return web.Response(status=401)
        key = self.keys.get(body["key_id"])
        if key is None:
            return web.Response(status=404)
        if what == "wrap":
            nonce = os.urandom(12)
            wrapped = nonce + AESGCM(key).encrypt(nonce, b64decode(body["plaintext"]), None)
            return web.json_response({"key_id": body["key_id"], "ciphertext": b64encode(wrapped).decode()})
        wrapped = b64decode(body["ciphertext"])
        try:
            found = AESGCM(key).decrypt(wrapped[:12], wrapped[12:], None)
        except InvalidTag:
            return web.Response(status=400)
        return web.json_response({"plaintext": b64encode(found).decode()})


@asynccontextmanager
async def key_service() -> AsyncIterator[KeyService]:
    service = KeyService()
    app = web.Application()
    app.router.add_post("/v1/{what:wrap|unwrap}", service.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    service.port = runner.addresses[0][1]
    try:
        yield service
    finally:
        await runner.cleanup()
