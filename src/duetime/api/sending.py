"""Sending responses: a small one at once, and the body of a large one in pieces, each of which waits until the client
has taken most of what came before.

What a client does not read stays in memory. In pieces, this is a bounded part of a response for each connection, and no
connection has its own copy of a document that many clients read.
"""

import asyncio
from collections.abc import Sequence

from starlette.types import Scope, Send

PIECE = 32 * 1024
"""Bytes."""
AT_ONCE = "duetime.at_once"
"""A key in the ASGI scope: what sends a whole response, or returns False (`http_protocol.py`)."""


async def send_response(
    scope: Scope, send: Send, status: int, headers: Sequence[tuple[bytes, bytes]], content: Sequence[bytes]
) -> None:
    """Send a whole response."""
    if len(content) == 1 and len(content[0]) <= PIECE:
        at_once = scope.get(AT_ONCE)
        if at_once is not None and at_once(status, headers, content[0]):
            return
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send_body(send, content)


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
