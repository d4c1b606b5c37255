"""The receiver that we show works: it checks signatures, and finishes runs later."""

import asyncio
import os
import sys
from pathlib import Path

from tests.support.targeting import targeting

RECEIVER = Path(__file__).parents[2] / "examples" / "webhooks" / "receiver.py"


async def test_the_receiver_finishes_a_run(tmp_path: Path) -> None:
    async with targeting(f"sqlite:///{tmp_path}/duetime.db") as targets:
        secret = (await targets.api.post("/v1/signing-secrets/rotate")).json["secret"]
        environ = {**os.environ, "WEBHOOK_SECRET": secret, "PORT": "0"}
        receiver = await asyncio.create_subprocess_exec(
            sys.executable, str(RECEIVER), env=environ, stdout=asyncio.subprocess.PIPE
        )
        try:
            assert receiver.stdout is not None
            url = (await receiver.stdout.readline()).decode().split()[-1]
            target = {"type": "http", "url": url, "body": {"order": 7}, "finish_within": "10m"}
            run = await targets.ended(target=target)
            assert (run["status"], run["result"]) == ("SUCCEEDED", {"order": 7, "packed": True})
            async with targets.api.http.post(url, data=b'{"order": 8}') as answer:
                assert answer.status == 401, "an unsigned request is refused"
        finally:
            receiver.kill()
            await receiver.wait()
