"""The bodies of messages in a stream: a carried run, or the announcement of a stored run.

    body        a mark and the version (one byte each), then a MessagePack array whose first item is the kind
    sealed      the whole body, if this process has encryption keys, bound to the name of its stream

With keys, an unsealed message is refused: a party that can write to the broker cannot create runs. Without keys, only
the broker's access rules protect the stream. Queue and tier of a run are those of its stream.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Generic, NamedTuple, TypeVar
from uuid import UUID

import msgspec

from duetime.crypto.sealer import Sealer, is_sealed
from duetime.errors import KeyUnknown, SealBroken
from duetime.model.carried import CarriedRun
from duetime.model.lane import LaneKey
from duetime.store.protocol.ready import Announcement
from duetime.streams.names import StreamName

VERSION = 1
_MARK = b"\xc1"
"""The byte that MessagePack never uses. Without it, any stray message would look like a newer version."""
_HEAD = _MARK + bytes([VERSION])
_LANES_REMEMBERED = 10_000
_LAST = (253_402_300_799_999).to_bytes(6)
"""The last millisecond of the year 9999: the end of a run with a later id could not be stored."""

_IdBytes = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Task = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
Id = TypeVar("Id")


class Unreadable(NamedTuple):
    """A message that this process cannot read, but another one may: a newer version, or an unknown key. The process
    stops consuming the stream."""

    reason: str


class Refused(NamedTuple):
    """A message that is not duetime's: undecodable, forged, or moved from another stream."""

    reason: str


class _Carried(msgspec.Struct, Generic[Id], array_like=True, tag=0, frozen=True, gc=False):
    run_id: Id
    job_id: Id
    tenant_id: _Int64
    task: _Task
    due: _Int64
    args: bytes
    options: bytes | None
    timeout_ms: _Int64 | None


class _Announced(msgspec.Struct, Generic[Id], array_like=True, tag=1, frozen=True, gc=False):
    run_id: Id
    lane_id: _Int64


_encoder = msgspec.msgpack.Encoder(uuid_format="bytes")
_decoder = msgspec.msgpack.Decoder(_Carried[_IdBytes] | _Announced[_IdBytes])


_Lanes = dict[tuple[int, str], LaneKey]
_MakeId = Callable[[bytes], UUID]
Unpacked = CarriedRun | Announcement | Unreadable | Refused


class MessageCodec:
    """Packs and unpacks the messages of any stream."""

    def __init__(self, sealer: Sealer, *, driver_ids: bool = False) -> None:
        """`driver_ids`: unpack ids as PostgreSQL's driver has them, which cost a worker less."""
        self._sealer = sealer
        self._id_of: _MakeId = _standard_id
        if driver_ids:
            from duetime.store.postgres.driver_ids import driver_id

            self._id_of = driver_id
        self._lanes: dict[str, _Lanes] = {}
        """One object per lane, however many of its runs are in memory; by stream."""

    async def pack(self, stream: StreamName, messages: Sequence[CarriedRun | Announcement]) -> list[bytes]:
        """The bodies of these messages. Raises `NoEncryptionKey` when the key provider has no key to seal with."""
        bodies = [_HEAD + _encoder.encode(_packed(message)) for message in messages]
        if not self._sealer.has_key:
            return bodies
        await self._sealer.ready()
        place = _place(stream)
        return [self._sealer.seal(body, belongs_to=place) for body in bodies]

    async def unpack(self, stream: StreamName, bodies: Sequence[bytes]) -> list[Unpacked]:
        """What each of these bodies says."""
        if len(self._lanes) >= _LANES_REMEMBERED:
            self._lanes.clear()
        lanes = self._lanes.setdefault(stream.text, {})
        if len(lanes) >= _LANES_REMEMBERED:
            lanes.clear()
        if not self._sealer.has_key:
            return [_unpack(stream, lanes, body, self._id_of) for body in bodies]
        await self._sealer.learn(bodies)
        place = _place(stream)
        return [self._open(stream, lanes, body, place) for body in bodies]

    def _open(self, stream: StreamName, lanes: _Lanes, sealed: bytes, place: str) -> Unpacked:
        try:
            body = self._sealer.open(sealed, belongs_to=place)
        except KeyUnknown as error:
            return Unreadable(str(error))
        except SealBroken:
            return Refused("the message is not encrypted, was modified, or was moved from another stream")
        return _unpack(stream, lanes, body, self._id_of)


def _unpack(stream: StreamName, lanes: _Lanes, body: bytes, id_of: _MakeId) -> Unpacked:
    if body[:2] != _HEAD:
        return _without_head(body)
    try:
        message = _decoder.decode(body[2:])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return Refused(f"the message cannot be decoded: {error}")
    if isinstance(message, _Announced):
        return Announcement(id_of(message.run_id), message.lane_id)
    if message.run_id[:6] > _LAST:
        return Refused("the id of the run has no moment that can be stored")
    tenant_id, task = message.tenant_id, message.task
    if tenant_id != stream.tenant_id and stream.tenant_id is not None:
        return Refused("the message names another tenant than its stream")
    lane = lanes.get((tenant_id, task))
    if lane is None:
        lane = lanes[tenant_id, task] = LaneKey(tenant_id, stream.queue, stream.tier, task)
    return CarriedRun(
        id_of(message.run_id),
        id_of(message.job_id),
        lane,
        message.due,
        message.args,
        message.options,
        message.timeout_ms,
    )


def _standard_id(body: bytes) -> UUID:
    return UUID(bytes=body)


def _without_head(body: bytes) -> Unreadable | Refused:
    if is_sealed(body):
        return Unreadable("the message is encrypted, and this process has no encryption keys")
    if body[:1] == _MARK and len(body) > 1 and body[1] > VERSION:
        return Unreadable(f"the message has version {body[1]}, and this release reads up to {VERSION}")
    return Refused("the message was not written by duetime")


def _packed(message: CarriedRun | Announcement) -> _Carried[UUID] | _Announced[UUID]:
    if isinstance(message, Announcement):
        return _Announced(message.run_id, message.lane_id)
    return _Carried(
        message.run_id,
        message.job_id,
        message.lane.tenant_id,
        message.lane.task,
        message.due,
        message.args,
        message.options,
        message.timeout_ms,
    )


def _place(stream: StreamName) -> str:
    return f"stream {stream.text}"
