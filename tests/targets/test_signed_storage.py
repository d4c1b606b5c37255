"""A real verifier of signatures for AWS: S3-compatible storage."""

from collections.abc import Iterator

import pytest

from tests.support.s3_server import ACCESS, BUCKET, SECRET, S3Server
from tests.support.targeting import targeting


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    if (reason := S3Server.missing()) is not None:
        pytest.skip(reason)
    with S3Server() as server:
        yield server


async def test_storage_accepts_the_signature_and_no_other(quiet_url: str, s3: S3Server) -> None:
    url = f"{s3.address}/{BUCKET}/a%20b/%C3%A9.json?x-id=PutObject"
    auth = {"type": "aws_sigv4", "service": "s3", "region": "us-east-1", "access_key_id": ACCESS}
    async with targeting(quiet_url) as targets:
        for secret, status in ((SECRET, "SUCCEEDED"), (SECRET + "x", "FAILED")):
            body = {"value": secret, "hosts": [f"127.0.0.1:{s3.port}"]}
            assert (await targets.api.ask("PUT", f"/v1/secrets/{status}", body)).status == 200
            signed = {**auth, "secret_access_key": {"secret": status}}
            target = {"type": "http", "url": url, "method": "PUT", "body": {"a": 1}, "auth": signed}
            run = await targets.ended(target=target)
            assert run["status"] == status and secret not in str(run), run
        assert "SignatureDoesNotMatch" in run["error"]
