"""SQS queues of other programs. Headers of a message are its attributes."""

from typing import Any
from urllib.parse import urlsplit

import aiohttp
from botocore.credentials import Credentials  # type: ignore[import-untyped]

from duetime.errors import MessageRefused
from duetime.model.target import AtSqs, SqsTarget
from duetime.streams.external.protocol import Message
from duetime.streams.sqs_client import SqsAddress, SqsClient, SqsError

_PASSING = ("InternalError", "ThrottlingException", "RequestThrottled", "ServiceUnavailable", "OverLimit")
_FIFO = ".fifo"


class SqsPublisher:
    def __init__(self, at: AtSqs, region: str, secret: str, http: aiohttp.ClientSession) -> None:
        """`http` connects only to allowed addresses, and is closed with this publisher."""
        self._client = client_of(at, region, secret, http)

    async def publish(self, target: SqsTarget, message: Message) -> dict[str, Any]:
        assert message.body is not None
        request: dict[str, Any] = {
            "QueueUrl": target.queue_url,
            "MessageBody": message.body.decode(),
            "MessageAttributes": {
                name: {"DataType": "String", "StringValue": value} for name, value in message.headers.items() if value
            },
        }
        if target.key is not None:
            request["MessageGroupId"] = target.key
        if target.queue_url.endswith(_FIFO):
            request["MessageDeduplicationId"] = message.message_id
        await self._client.open()
        try:
            answer = await self._client.call("SendMessage", request, again=False)
        except SqsError as error:
            raise judged(error) from error
        found = {"queue_url": target.queue_url, "message_id": str(answer.get("MessageId"))[:100]}
        if "SequenceNumber" in answer:
            found["sequence_number"] = str(answer["SequenceNumber"])[:100]
        return found

    async def close(self) -> None:
        await self._client.close()


def client_of(at: AtSqs, region: str, secret: str, http: aiohttp.ClientSession) -> SqsClient:
    parts = urlsplit(at.queue_url)
    credentials = Credentials(at.access_key_id, secret)
    return SqsClient(SqsAddress(f"{parts.scheme}://{parts.netloc}/", region, credentials, 0, True), http)


def judged(error: SqsError) -> SqsError | MessageRefused:
    """SQS refuses a call for good, unless it says otherwise."""
    return error if error.code in _PASSING else MessageRefused(error.message)
