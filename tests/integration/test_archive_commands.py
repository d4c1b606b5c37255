"""`duetime archive` against a server."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from duetime.archive.names import date_of, day_of
from duetime.cli.main import application
from tests.support.old_history import add_ended
from tests.support.served import served

pytest.importorskip("pyarrow")
DAY = day_of((datetime.now(UTC) - timedelta(days=40)).date())


async def test_commands_of_the_archive(tmp_path: Path) -> None:
    url, archive_url = f"sqlite:///{tmp_path / 'duetime.db'}", f"file://{tmp_path}/archive"
    async with served(url, archive_url=archive_url) as api:
        environ = {"DUETIME_URL": api.url, "DUETIME_KEY": api.root, "COLUMNS": "250", "NO_COLOR": "1"}

        async def duetime(*arguments: str) -> Result:
            found = await asyncio.to_thread(CliRunner().invoke, application, arguments, env=environ)
            assert found.exit_code == 0 or "refused" in arguments, found.output
            return found

        async def facts(*arguments: str) -> list[dict[str, Any]]:
            return [json.loads(line) for line in (await duetime(*arguments, "--json")).stdout.splitlines()]

        await add_ended(api.store, DAY, 7)
        day = date_of(DAY).isoformat()
        assert await facts("archive", "run") == [{"rows": 7}]
        assert (await facts("archive", "status"))[0]["waiting"] == []
        (listed,) = await facts("archive")
        assert (listed["day"], listed["rows"]) == (day, 7)
        assert len(await facts("archive", "read", day, "--limit", "3")) == 3
        assert "yes" in (await duetime("archive", "read", day)).stdout
        assert api.service.archive is not None
        await api.service.archive.release(await api.store.now(), timedelta(days=30))
        for _ in range(4):
            await api.store.pruning.prune(timedelta(days=30), timedelta(days=30))
        assert (await api.store.reads.counts()).history == 0
        shown = await facts("runs", "list", "--until", f"{date_of(DAY + 1)}T00:00:00Z")
        assert [run["archived"] for run in shown] == [True] * 7
        assert (await facts("archive", "restore", day, "--keep", "1d"))[0]["restored"] == 7
        assert (await api.store.reads.counts()).history == 7
        assert (await facts("archive", "stop")) == [{"used": False}]
        assert (await facts("archive", "erase", "--yes"))[0]["files"] == 2
        assert await facts("archive", "list") == []
        wrong = await asyncio.to_thread(CliRunner().invoke, application, ("archive", "read", "yesterday"), env=environ)
        assert wrong.exit_code != 0 and "2027-01-31" in wrong.stderr
        for command in ("list", "read", "restore", "run", "status", "erase", "stop"):
            assert "archive" in (await duetime("archive", command, "--help")).stdout.lower()
