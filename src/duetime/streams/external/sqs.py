"""SQS queues of other programs. Headers of a message are its attributes."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from botocore.credentials import Credentials  # type: ignore[import-untyped]

from duetime.errors import MessageRefused
from duetime.model.source import SqsSource
from duetime.model.target import AtSqs, SqsTarget
from duetime.streams.external.protocol import Message, Received
from duetime.streams.sqs_client import SqsAddress, SqsClient, SqsError

_PASSING = ("InternalError", "ThrottlingException", "RequestThrottled", "ServiceUnavailable", "OverLimit")
_FIFO = ".fifo"
_MOST = 10
"""Messages of a call."""
_INVISIBLE = 30
"""Seconds for which no other consumer receives a message."""


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


class SqsReceiver:
    """Receives messages, and deletes those that are done. A message that is not comes back after a while."""

    def __init__(self, at: SqsSource, region: str, secret: str, http: aiohttp.ClientSession) -> None:
        self._at = at
        self._client = client_of(at, region, secret, http)
        self.marks: dict[str, str] = {}
        self._width = 1
        """How many calls at once pay."""

    async def fetch(self, most: int, wait: float) -> list[Received]:
        await self._client.open()
        request = {
            "QueueUrl": self._at.queue_url,
            "MaxNumberOfMessages": min(most, _MOST),
            "WaitTimeSeconds": min(int(wait), 20),
            "VisibilityTimeout": _INVISIBLE,
            "MessageAttributeNames": ["All"],
            "MessageSystemAttributeNames": ["MessageGroupId"],
        }
        # In a FIFO queue, a group is received in order by one call at a time.
        width = 1 if self._at.queue_url.endswith(_FIFO) else min(self._width, max(1, most // _MOST))
        try:
            answers = await asyncio.gather(
                *(self._client.call("ReceiveMessage", request, wait=int(wait)) for _ in range(width))
            )
        except SqsError as error:
            raise judged(error) from error
        found = [_received(each) for answer in answers for each in answer.get("Messages") or ()]
        self._width = min(2 * self._width, 8) if len(found) == width * _MOST else 1
        return found

    async def hold(self, messages: Sequence[Received]) -> None:
        await self._each("ChangeMessageVisibilityBatch", messages, {"VisibilityTimeout": _INVISIBLE})

    async def done(self, messages: Sequence[Received]) -> None:
        await self._each("DeleteMessageBatch", messages, {})

    async def close(self) -> None:
        await self._client.close()

    async def _each(self, action: str, messages: Sequence[Received], more: Mapping[str, object]) -> None:
        for start in range(0, len(messages), _MOST):
            entries = [
                {"Id": str(place), "ReceiptHandle": message.ref, **more}
                for place, message in enumerate(messages[start : start + _MOST])
            ]
            # What another consumer has received since comes back, and is recognised.
            await self._client.call(action, {"QueueUrl": self._at.queue_url, "Entries": entries})


def _received(message: Mapping[str, Any]) -> Received:
    headers = {
        name.lower(): value["StringValue"]
        for name, value in (message.get("MessageAttributes") or {}).items()
        if "StringValue" in value
    }
    group = (message.get("Attributes") or {}).get("MessageGroupId")
    message_id = str(message["MessageId"])
    return Received(message_id, group, headers, message["Body"].encode(), None, message_id, message["ReceiptHandle"])


def client_of(at: AtSqs, region: str, secret: str, http: aiohttp.ClientSession) -> SqsClient:
    parts = urlsplit(at.queue_url)
    credentials = Credentials(at.access_key_id, secret)
    return SqsClient(SqsAddress(f"{parts.scheme}://{parts.netloc}/", region, credentials, 0, True), http)


def judged(error: SqsError) -> SqsError | MessageRefused:
    """SQS refuses a call for good, unless it says otherwise."""
    return error if error.code in _PASSING else MessageRefused(error.message)
