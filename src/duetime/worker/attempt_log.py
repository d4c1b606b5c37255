"""The log of one attempt: a bounded number of lines, stored with the attempt and forwarded to the process's own
logging."""

import logging
from datetime import UTC, datetime
from typing import Any

import msgspec

from duetime.clock import SystemClock
from duetime.model import json
from duetime.model.failure import bounded

LINE_LIMIT = 1000

_encoder = msgspec.json.Encoder()


class AttemptLog:
    """Created for every attempt, so it costs nothing until the task logs."""

    __slots__ = ("_lines", "_logger", "_max_lines", "_task", "dropped")

    def __init__(self, task: str, max_lines: int) -> None:
        self._task = task
        self._max_lines = max_lines
        self._logger: logging.Logger | None = None
        self._lines: list[tuple[str, str, str]] | None = None
        self.dropped = 0

    @property
    def logger(self) -> logging.Logger:
        if self._logger is None:
            parent = logging.getLogger(f"duetime.task.{self._task}")
            logger = logging.Logger(parent.name, logging.DEBUG)
            logger.parent = parent
            logger.addHandler(_Keeper(self))
            self._logger = logger
        return self._logger

    def add(self, when: datetime, level: str, text: str) -> None:
        if self._lines is None:
            self._lines = []
        if len(self._lines) >= self._max_lines:
            # Keep the first half and the last lines: the end of a log says more than its middle.
            del self._lines[self._max_lines // 2]
            self.dropped += 1
        self._lines.append((when.isoformat(timespec="milliseconds"), level, bounded(text, LINE_LIMIT)))

    @property
    def written(self) -> int:
        """The number of lines so far."""
        return len(self._lines or ()) + self.dropped

    def encoded(self) -> bytes | None:
        if not self._lines:
            return None
        lines = [{"at": at, "level": level, "text": text} for at, level, text in self._lines]
        return _encoder.encode({"lines": lines, "dropped": self.dropped})


def with_line(encoded: bytes | None, text: str) -> bytes:
    """A log with one more line from the worker itself, or with that line alone."""
    log: dict[str, Any] = {"lines": [], "dropped": 0} if encoded is None else json.decode(encoded)
    when = SystemClock().now().isoformat(timespec="milliseconds")
    log["lines"].append({"at": when, "level": "WARNING", "text": bounded(text, LINE_LIMIT)})
    return _encoder.encode(log)


class _Keeper(logging.Handler):
    def __init__(self, attempt_log: AttemptLog) -> None:
        super().__init__()
        self._attempt_log = attempt_log

    def emit(self, record: logging.LogRecord) -> None:
        try:
            when = datetime.fromtimestamp(record.created, UTC)
            self._attempt_log.add(when, record.levelname, self.format(record))
        except Exception:
            self.handleError(record)
