"""Logs on their way to a server, cut to the protocol's limits, however much the worker keeps."""

import msgspec

from duetime.wire.workers import LEVEL_LENGTH, LINE_LENGTH, LOG_LIMIT, LOG_LINES, LogLine, Logs

_FRAME = len(b'{"lines":[],"dropped":}') + 20
_COMMA = 1


class _Line(msgspec.Struct):
    """A line as `AttemptLog` writes it, without the protocol's limits."""

    at: str
    level: str
    text: str


class _Kept(msgspec.Struct):
    lines: list[_Line]
    dropped: int


_decoder = msgspec.json.Decoder(_Kept)
_encoder = msgspec.json.Encoder()


def wire_logs(encoded: bytes) -> Logs:
    """The log of an attempt, encoded for the protocol: if it is too long, the last lines."""
    kept = _decoder.decode(encoded)
    lines = [LogLine(line.at, line.level[:LEVEL_LENGTH], line.text[:LINE_LENGTH]) for line in kept.lines]
    fitting = lines if len(encoded) <= LOG_LIMIT and len(lines) <= LOG_LINES else _last_lines(lines)
    return Logs(fitting, kept.dropped + len(lines) - len(fitting))


def _last_lines(lines: list[LogLine]) -> list[LogLine]:
    first, room = len(lines), LOG_LIMIT - _FRAME
    least = max(0, len(lines) - LOG_LINES)
    while first > least:
        room -= len(_encoder.encode(msgspec.structs.asdict(lines[first - 1]))) + _COMMA
        if room < 0:
            break
        first -= 1
    return lines[first:]
