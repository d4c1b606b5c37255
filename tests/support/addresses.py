"""Addresses of what stands in front of a database."""

import asyncio
from urllib.parse import urlsplit, urlunsplit


def dsn_through(dsn: str, server: asyncio.Server | None) -> str:
    """The address of the same database by way of a server of ours; in plain text, so that it can be read there."""
    assert server is not None, "it was not started"
    parts = urlsplit(dsn)
    port = server.sockets[0].getsockname()[1]
    user = f"{parts.username}@" if parts.username else ""
    return urlunsplit(parts._replace(netloc=f"{user}127.0.0.1:{port}", query="sslmode=disable"))
