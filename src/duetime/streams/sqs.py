"""SQS: a stream is a standard queue.

    held          invisible for a lease, which `extend` begins anew
    redelivered   received more than once
    done          deleted

A call carries at most ten messages, so a fetch makes several calls at once where there is much to receive. A call that
is under way when a fetch ends goes on, and the next fetch gets what it brings.
"""

import asyncio
import math
from base64 import b64decode, b64encode
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from duetime.clock import monotonic
from duetime.errors import InvalidInput, StreamUnavailable
from duetime.process.ending import end_tasks
from duetime.process.slices import batches
from duetime.streams.protocol import Delivery, Depth, answered
from duetime.streams.sizes import check_sizes
from duetime.streams.sqs_client import SqsAddress, SqsClient, SqsError, parse

_MOST = 10
"""Messages of a call."""
_SENDS = 16
"""Calls that publish at once."""
_LARGEST_CALL = 262_144
"""Bytes of a call with several messages."""
_AT_ONCE = 10
"""Calls for one stream."""
_LONGEST_POLL = 20
_LAST_CALLS = 1.0
"""Seconds to wait for calls when the consumer is closed. What a call brings later comes back after a lease."""
_MARK = "1"
"""Before the text of a message: SQS takes no empty ones."""
_KEPT = 1_209_600
"""Seconds: 14 days, the most that SQS keeps a message."""
_ABSENT = ("QueueDoesNotExist", "NonExistentQueue")
_GONE = ("ReceiptHandleIsInvalid", "MessageNotInflight", "InvalidParameterValue")
"""Another consumer has received the message since, or it was deleted."""
_DENIED = ("AccessDenied", "AccessDeniedException", "InvalidClientTokenId", "SignatureDoesNotMatch")
_ACTIONS = (
    "CreateQueue, GetQueueUrl, GetQueueAttributes, SendMessage, ReceiveMessage, DeleteMessage, ChangeMessageVisibility"
)


class SqsBroker:
    shared, partitioned = True, False

    def __init__(self, address: str) -> None:
        self._address = parse(address)
        self._client = SqsClient(self._address)
        self._urls: dict[str, str] = {}
        self._sending = asyncio.Semaphore(_SENDS)
        self.largest = self._address.largest

    async def open(self) -> None:
        await self._client.open()
        try:
            await self._find("duetime_probe")  # an answer, whatever it is, shows that SQS is there
        except SqsError as error:
            if error.code in _DENIED:
                return  # the check of a queue says what is missing
            await self._client.close()
            raise
        except StreamUnavailable:
            await self._client.close()
            raise

    async def close(self) -> None:
        await self._client.close()

    async def check(self, streams: Sequence[str]) -> list[str]:
        said: list[str] = []
        for stream in streams:
            try:
                attributes = await self._attributes(stream)
            except SqsError as error:
                if error.code in _DENIED:
                    raise InvalidInput(error.message, field="stream", remedy=f"allow {_ACTIONS}") from error
                raise
            said += judge(stream, attributes, self._address)
        return list(dict.fromkeys(said))

    async def publish(self, stream: str, bodies: Sequence[bytes], within: float | None = None) -> None:
        check_sizes(bodies, self.largest)
        await answered(self._publish(stream, bodies), within)

    async def _publish(self, stream: str, bodies: Sequence[bytes]) -> None:
        url = await self._url(stream)
        calls = [self._send(url, batch) for batch in batches(bodies, _MOST, _fits(_LARGEST_CALL) - 3 * _MOST, len)]
        await _all(calls)

    async def depths(self, streams: Sequence[str], *, ages: bool = True) -> Mapping[str, Depth]:
        found: dict[str, Depth] = {}
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        asked = [*names, "MessageRetentionPeriod"]
        for stream in streams:
            try:
                url = await self._url(stream)
                answer = await self._client.call("GetQueueAttributes", {"QueueUrl": url, "AttributeNames": asked})
            except SqsError as error:
                if error.code in _ABSENT:
                    self._urls.pop(stream, None)
                    continue
                raise
            attributes = answer["Attributes"]
            kept = timedelta(seconds=int(attributes.get("MessageRetentionPeriod", _KEPT)))
            found[stream] = Depth(sum(int(attributes[name]) for name in names), None, kept)
        return found

    async def consumer(self, streams: Sequence[str], name: str, lease: float) -> "SqsConsumer":
        urls = {stream: await self._url(stream) for stream in streams}
        return SqsConsumer(self._client, urls, math.ceil(lease))

    async def _send(self, url: str, bodies: Sequence[bytes]) -> None:
        entries = [
            {"Id": str(place), "MessageBody": _MARK + b64encode(body).decode()} for place, body in enumerate(bodies)
        ]
        async with self._sending:
            answer = await self._client.call("SendMessageBatch", {"QueueUrl": url, "Entries": entries}, again=False)
        _refuse_failures(answer)

    async def _url(self, stream: str) -> str:
        if stream not in self._urls:
            found = await self._find(stream)
            if found is None:
                raise SqsError(_ABSENT[0], f"there is no queue {stream}")
            self._urls[stream] = found
        return self._urls[stream]

    async def _find(self, stream: str) -> str | None:
        try:
            url: str = (await self._client.call("GetQueueUrl", {"QueueName": stream}))["QueueUrl"]
        except SqsError as error:
            if error.code in _ABSENT:
                return None
            raise
        return url

    async def _attributes(self, stream: str) -> dict[str, str]:
        url = await self._find(stream)
        if url is None:
            wished = {"MessageRetentionPeriod": str(_KEPT)}
            url = (await self._client.call("CreateQueue", {"QueueName": stream, "Attributes": wished}))["QueueUrl"]
        assert url is not None
        self._urls[stream] = url
        answer = await self._client.call("GetQueueAttributes", {"QueueUrl": url, "AttributeNames": ["All"]})
        attributes: dict[str, str] = answer["Attributes"]
        return attributes


class _Receipt(NamedTuple):
    url: str
    handle: str


class SqsConsumer:
    def __init__(self, client: SqsClient, urls: Mapping[str, str], lease: int) -> None:
        self._client = client
        self._urls = urls
        self._lease = lease
        self._calls: dict[asyncio.Task[list[Delivery]], str] = {}
        self._received: dict[str, deque[tuple[Delivery, float]]] = {stream: deque() for stream in urls}
        self._width = dict.fromkeys(urls, 1)
        """How many calls at once pay, by stream: twice as many after a full one, one after an empty one."""
        self._held: set[_Receipt] = set()

    async def fetch(self, takes: Sequence[tuple[str, int]], wait: float) -> list[Delivery]:
        asked = [(stream, count) for stream, count in takes if count > 0]
        deadline = monotonic() + wait
        if not asked:
            return []
        while True:
            self._collect()
            found = [delivery for stream, count in asked for delivery in self._taken(stream, count)]
            if found:
                return found
            left = deadline - monotonic()
            if left <= 0:
                return await self._look(asked) if not wait else []
            for stream, count in asked:
                self._receive(stream, count, left)
            await asyncio.wait(self._calls, timeout=left, return_when=asyncio.FIRST_COMPLETED)

    async def extend(self, deliveries: Sequence[Delivery]) -> None:
        await self._hold((delivery.ref for delivery in deliveries), self._lease)

    async def done(self, deliveries: Sequence[Delivery]) -> None:
        receipts = [delivery.ref for delivery in deliveries]
        await _all([self._each("DeleteMessageBatch", url, handles, {}) for url, handles in _by_queue(receipts)])
        self._held.difference_update(receipts)

    async def close(self) -> None:
        calls = list(self._calls)
        if calls:
            await asyncio.wait(calls, timeout=_LAST_CALLS)
        await end_tasks(calls)
        self._calls.clear()
        held, self._held = self._held, set()
        try:
            await self._hold(held, 0)
        except StreamUnavailable:
            return  # they come back when their lease has ended

    async def _look(self, asked: Sequence[tuple[str, int]]) -> list[Delivery]:
        """What is there now."""
        calls = {asyncio.create_task(self._call(stream, min(count, _MOST), 0)): stream for stream, count in asked}
        self._calls |= calls
        await asyncio.wait(calls)
        self._collect()
        return [delivery for stream, count in asked for delivery in self._taken(stream, count)]

    def _taken(self, stream: str, most: int) -> list[Delivery]:
        found: list[Delivery] = []
        waiting = self._received[stream]
        while waiting and len(found) < most:
            delivery, received_at = waiting.popleft()
            # What was received long ago may be visible to others by the time that it starts.
            if monotonic() - received_at < self._lease / 2:
                found.append(delivery)
        return found

    def _receive(self, stream: str, count: int, wait: float) -> None:
        """Start as many calls as are missing."""
        under_way = sum(called == stream for called in self._calls.values())
        wished = min(self._width[stream], math.ceil(count / _MOST), _AT_ONCE)
        for place in range(under_way, wished):
            most = min(_MOST, count - place * _MOST)
            self._calls[asyncio.create_task(self._call(stream, most, min(math.ceil(wait), _LONGEST_POLL)))] = stream

    async def _call(self, stream: str, most: int, wait: int) -> list[Delivery]:
        request = {
            "QueueUrl": self._urls[stream],
            "MaxNumberOfMessages": most,
            "WaitTimeSeconds": wait,
            "VisibilityTimeout": self._lease,
            "MessageSystemAttributeNames": ["ApproximateReceiveCount"],
        }
        answer = await self._client.call("ReceiveMessage", request, wait=wait)
        messages = answer.get("Messages") or []
        if len(messages) == _MOST:
            self._width[stream] = min(2 * self._width[stream], _AT_ONCE)
        elif not messages:
            self._width[stream] = 1
        found = [self._delivery(stream, message) for message in messages]
        self._held.update(delivery.ref for delivery in found)
        return found

    def _delivery(self, stream: str, message: Mapping[str, Any]) -> Delivery:
        text: str = message["Body"]
        try:
            body = b64decode(text.removeprefix(_MARK), validate=True)
        except ValueError:
            body = text.encode()  # not one of duetime's: the reader of the stream refuses it
        redelivered = message.get("Attributes", {}).get("ApproximateReceiveCount") != "1"
        return Delivery(stream, body, redelivered, _Receipt(self._urls[stream], message["ReceiptHandle"]))

    def _collect(self) -> None:
        """Keep what ended calls have brought. Raises `StreamUnavailable` if one has failed."""
        failure: BaseException | None = None
        for call in [call for call in self._calls if call.done()]:
            stream = self._calls.pop(call)
            error = call.exception()
            if error is not None:
                failure = error
            else:
                now = monotonic()
                self._received[stream].extend((delivery, now) for delivery in call.result())
        if failure is not None:
            raise failure

    async def _hold(self, receipts: Iterable[_Receipt], seconds: int) -> None:
        more = {"VisibilityTimeout": seconds}
        await _all(
            [self._each("ChangeMessageVisibilityBatch", url, handles, more) for url, handles in _by_queue(receipts)]
        )

    async def _each(self, action: str, url: str, handles: Sequence[str], more: Mapping[str, object]) -> None:
        entries = [{"Id": str(place), "ReceiptHandle": handle, **more} for place, handle in enumerate(handles)]
        _refuse_failures(await self._client.call(action, {"QueueUrl": url, "Entries": entries}), but=_GONE)


def judge(stream: str, attributes: Mapping[str, str], address: SqsAddress) -> list[str]:
    """What the operator must know of a queue with these attributes. Raises `InvalidInput` if it would lose messages."""
    if attributes.get("FifoQueue") == "true":
        raise _refused(f"queue {stream} is a FIFO queue", "delete it: duetime creates a standard queue")
    if attributes.get("RedrivePolicy"):
        raise _refused(
            f"queue {stream} has a redrive policy, by which SQS takes messages away",
            "remove its dead-letter queue: duetime has dead letters of its own",
        )
    accepted = _fits(int(attributes.get("MaximumMessageSize", _LARGEST_CALL)))
    if accepted < address.largest:
        raise _refused(
            f"queue {stream} accepts messages of {accepted} bytes, less than the {address.largest} that are expected",
            f"set MaximumMessageSize to {_LARGEST_CALL} or more, or add largest={accepted} to the address",
        )
    kept = int(attributes.get("MessageRetentionPeriod", _KEPT))
    if kept < _KEPT and not address.accept_retention:
        raise _refused(
            f"queue {stream} keeps messages for {kept} seconds only",
            f"set MessageRetentionPeriod to {_KEPT} (14 days), or add accept_retention=true to the address",
        )
    said = [
        "A message is accepted when SQS has stored it, in several zones of its region.",
        f"SQS deletes a message that no worker has taken within {kept // 3600} hours.",
    ]
    delay = attributes.get("DelaySeconds", "0")
    if delay != "0":
        said.append(f"Queue {stream} delays each message by {delay} seconds.")
    return said


def _fits(size: int) -> int:
    """The bytes of a message that fit into so many bytes of text."""
    return (size - len(_MARK)) // 4 * 3


def _by_queue(receipts: Iterable[_Receipt]) -> list[tuple[str, list[str]]]:
    """Ten handles at a time."""
    found: dict[str, list[str]] = defaultdict(list)
    for receipt in dict.fromkeys(receipts):
        found[receipt.url].append(receipt.handle)
    return [
        (url, handles[start : start + _MOST])
        for url, handles in found.items()
        for start in range(0, len(handles), _MOST)
    ]


def _refuse_failures(answer: Mapping[str, Any], but: Sequence[str] = ()) -> None:
    for failed in answer.get("Failed") or ():
        if failed["Code"] not in but:
            raise SqsError(failed["Code"], str(failed.get("Message", ""))[:300])


async def _all(calls: Iterable[Any]) -> None:
    """Wait for all of them, then raise the first failure."""
    for outcome in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


def _refused(message: str, remedy: str) -> InvalidInput:
    return InvalidInput(message, field="stream", remedy=remedy)
