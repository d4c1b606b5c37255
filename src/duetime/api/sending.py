"""The body of a response in pieces, each of which waits until the client has taken most of what came before.

What a client does not read stays in memory. In pieces, this is a bounded part of a response for each connection, and no
connection has its own copy of a document that many clients read.
"""

import asyncio
from collections.abc import Sequence

from starlette.types import Send

PIECE = 32 * 1024
"""Bytes."""


async def send_body(send: Send, content: Sequence[bytes], *, more: bool = False) -> None:
    """Send these parts. Without `more`, they are the whole rest of the body."""
    if len(content) == 1 and len(content[0]) <= PIECE:
        await send({"type": "http.response.body", "body": content[0], "more_body": more})
        return
    for part in content:
        seen = memoryview(part)
        for start in range(0, len(part), PIECE):
            await send({"type": "http.response.body", "body": seen[start : start + PIECE], "more_body": True})
            await asyncio.sleep(0)  # other requests have their turn
    if not more:
        await send({"type": "http.response.body", "body": b""})
