"""Bodies of messages, names of streams and addresses of brokers."""

import re
import sys
from uuid import UUID, uuid4

import msgspec
import pytest

from duetime.crypto.sealer import Sealer
from duetime.errors import InvalidInput
from duetime.ids import new_id
from duetime.model.carried import CarriedRun, StreamQueue, StreamSettings
from duetime.model.lane import LaneKey, Tier
from duetime.model.name import check_name
from duetime.process.slices import batches
from duetime.store.protocol.ready import Announcement
from duetime.streams.address import broker_at, prefix_of, shown_address
from duetime.streams.message import VERSION, MessageCodec, Refused, Unreadable
from duetime.streams.names import LONGEST, StreamName, streams_of

HIGH = StreamName(7, "mail", Tier.HIGH, 1, "duetime")
LOW = StreamName(7, "mail", Tier.LOW, 1, "duetime")
ALL = StreamName(None, "mail", Tier.HIGH, 1, "duetime")
PLAIN = MessageCodec(Sealer([]))
SEALED = MessageCodec(Sealer([("k1", b"1" * 32)]))


def run_of(tenant: int = 7, tier: Tier = Tier.HIGH, **fields: object) -> CarriedRun:
    values = {"due": 1, "args": b"[1]", "options": None, "timeout_ms": None, **fields}
    return CarriedRun(new_id(), new_id(), LaneKey(tenant, "mail", tier, "send"), **values)  # type: ignore[arg-type]


@pytest.mark.parametrize("codec", [PLAIN, SEALED], ids=["plain", "sealed"])
@pytest.mark.parametrize("stream", [HIGH, ALL], ids=["own", "shared"])
async def test_a_message_says_what_was_packed(codec: MessageCodec, stream: StreamName) -> None:
    messages = [
        run_of(),
        run_of(due=-(2**63), args=b"", options=b"\x00\xff" * 300, timeout_ms=2**63 - 1),
        Announcement(uuid4(), 2**62),
    ]
    assert await codec.unpack(stream, await codec.pack(stream, messages)) == messages


async def test_runs_of_a_lane_share_its_key() -> None:
    first, second = await PLAIN.unpack(HIGH, await PLAIN.pack(HIGH, [run_of(), run_of()]))
    assert isinstance(first, CarriedRun)
    assert isinstance(second, CarriedRun)
    assert first.lane is second.lane


async def test_a_sealed_message_hides_its_content_and_opens_only_in_its_stream() -> None:
    [body] = await SEALED.pack(HIGH, [run_of(args=b'["secret"]')])
    assert b"secret" not in body
    for stream in LOW, StreamName(7, "mail", Tier.HIGH, 2, "duetime"), ALL:
        [moved] = await SEALED.unpack(stream, [body])
        assert isinstance(moved, Refused)
    for at in range(len(body)):
        [changed] = await SEALED.unpack(HIGH, [body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]])
        assert isinstance(changed, Refused | Unreadable)


async def test_with_keys_an_unsealed_message_is_forged() -> None:
    assert isinstance((await SEALED.unpack(HIGH, await PLAIN.pack(HIGH, [run_of()])))[0], Refused)


async def test_an_unknown_key_stops_this_process_only() -> None:
    other = MessageCodec(Sealer([("k2", b"2" * 32)]))
    bodies = await SEALED.pack(HIGH, [run_of()])
    for codec in other, PLAIN:
        [message] = await codec.unpack(HIGH, bodies)
        assert isinstance(message, Unreadable)
        assert "key" in message.reason
    rotated = MessageCodec(Sealer([("k2", b"2" * 32), ("k1", b"1" * 32)]))
    assert isinstance((await rotated.unpack(HIGH, bodies))[0], CarriedRun)


async def test_a_newer_version_is_not_refused() -> None:
    [body] = await PLAIN.pack(HIGH, [run_of()])
    [message] = await PLAIN.unpack(HIGH, [body[:1] + bytes([VERSION + 1]) + b"anything"])
    assert isinstance(message, Unreadable)
    assert str(VERSION + 1) in message.reason


async def test_what_duetime_did_not_write_is_refused() -> None:
    [body] = await PLAIN.pack(HIGH, [run_of()])
    others = [
        b"",
        b"{}",
        b"\xc1",
        b"\xc1\x00",
        body[:2],
        body + b"\x00",
        b"\xc1\x01\x90",
        b"\xc1\x01\xdd\xff\xff\xff\xff",
    ]
    others += [body[:end] for end in range(len(body))]
    for other, message in zip(others, await PLAIN.unpack(HIGH, others), strict=True):
        assert isinstance(message, Refused), other


async def test_a_run_of_another_tenant_is_refused_in_a_stream_of_one() -> None:
    bodies = await PLAIN.pack(HIGH, [run_of(tenant=8)])
    assert isinstance((await PLAIN.unpack(HIGH, bodies))[0], Refused)
    assert isinstance((await PLAIN.unpack(ALL, bodies))[0], CarriedRun)


async def test_a_run_whose_end_could_not_be_stored_is_refused() -> None:
    """Otherwise the worker would hold its message for ever."""
    bodies = await PLAIN.pack(HIGH, [msgspec.structs.replace(run_of(), run_id=UUID(int=2**128 - 1))])
    assert isinstance((await PLAIN.unpack(HIGH, bodies))[0], Refused)


QUEUES = [
    "mail",
    "send_mail",
    "send-mail",
    "a.b",
    "a:b",
    "a/b",
    "a@b",
    "a-2eb",
    "a--b",
    "q" * 200,
    "q" * 199 + "r",
    ":" * 200,
]
QUEUES[-1] = "_" + ":" * 199


def test_names_are_safe_for_every_broker_and_differ() -> None:
    names = [
        StreamName(tenant, check_name(queue, "queue"), tier, generation, "duetime")
        for tenant in (None, 1, 2**63 - 1)
        for queue in QUEUES
        for tier in Tier
        for generation in (1, 999_999)
    ]
    texts = {text for name in names for text in (name.text, name.refused)}
    assert len(texts) == 2 * len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]+", text) and len(text) <= LONGEST for text in texts)


def test_a_queue_has_a_stream_per_tier() -> None:
    queue = StreamQueue(12, "mail", 3, StreamSettings("redis://host?prefix=shop"), current=True, age=0)
    assert [name.text for name in streams_of(queue, shared=False).values()] == [
        "shop_12_mail_high_3",
        "shop_12_mail_medium_3",
        "shop_12_mail_low_3",
    ]
    assert streams_of(queue, shared=True)[Tier.LOW].text == "shop_all_mail_low_3"


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("nats://me:hidden@host", "redis://"),
        ("host:6379", "redis://"),
        ("", "redis://"),
        ("redis://host/0\n", "printable"),
        ("redis://host?prefix=a_b", "prefix"),
        ("redis://" + "h" * 2000, "2000"),
    ],
)
async def test_a_bad_address_says_what_is_known(address: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says) as refused:
        await broker_at(address)
    assert "hidden" not in str(refused.value)
    assert refused.value.field == "stream"


async def test_replicas_belong_to_redis() -> None:
    with pytest.raises(InvalidInput, match="replicas"):
        await broker_at("sqs://eu-west-1", replicas=1)


def test_a_shown_address_has_no_password() -> None:
    assert shown_address("kafka://me:hidden@one:9092,two:9092") == "kafka://me:***@one:9092,two:9092"
    assert prefix_of("redis://me:hidden@one") == "duetime"


@pytest.mark.parametrize(
    ("module", "address", "extra"), [("redis", "redis://host", "redis"), ("aiormq", "amqp://host", "rabbitmq")]
)
async def test_a_missing_client_names_its_extra(
    monkeypatch: pytest.MonkeyPatch, module: str, address: str, extra: str
) -> None:
    for name in [
        name for name in sys.modules if name.partition(".")[0] == module or name.startswith("duetime.streams.r")
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InvalidInput, match=re.escape(f"duetime[{extra}]")):
        await broker_at(address)


def test_batches_are_bounded_by_count_and_bytes() -> None:
    bodies = [b"%d" % number for number in range(10)]
    assert [len(batch) for batch in batches(bodies, 4, 100, len)] == [4, 4, 2]
    assert [len(batch) for batch in batches(bodies, 100, 3, len)] == [3, 3, 3, 1]
    assert list(batches([b"long", b"a", b"longer", b"b", b"c"], 100, 3, len)) == [
        [b"long"],
        [b"a"],
        [b"longer"],
        [b"b", b"c"],
    ]
    assert list(batches([], 4, 4, len)) == []
