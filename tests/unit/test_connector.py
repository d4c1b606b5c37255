"""Logins at PostgreSQL that are cancelled."""

import asyncio
import gc
from typing import Any

import asyncpg
import pytest
from asyncpg import connect_utils

from duetime.store.postgres import connector


async def test_a_login_that_is_cancelled_early_leaves_no_unretrieved_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the TCP connection is being made, nothing waits for the answer about TLS yet."""
    assert connector.Connector("postgresql://localhost/x")
    ours: Any = connect_utils.TLSUpgradeProto
    made: list[object] = []

    class Cancelled(ours):  # type: ignore[misc]
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            login = asyncio.current_task()
            assert login is not None
            made.append(asyncio.get_running_loop().call_soon(login.cancel))

    monkeypatch.setattr(connect_utils, "TLSUpgradeProto", Cancelled)
    told: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "call_exception_handler", told.append)
    async with await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        login = asyncio.create_task(asyncpg.connect(f"postgresql://a@127.0.0.1:{port}/b?sslmode=require"))
        with pytest.raises(asyncio.CancelledError):
            await login
        assert made
        made.clear()
        del login
        for _ in range(3):
            await asyncio.sleep(0)
        gc.collect()
    assert told == []
