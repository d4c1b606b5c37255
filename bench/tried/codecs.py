"""A run's arguments, written once and read once: msgspec, or the standard library. Counted in seconds of CPU."""

import json
from collections.abc import Callable
from functools import partial
from time import process_time
from typing import Any

import msgspec

from bench.tried.ways import Place, Ways

ARGS = {"sent": 1_700_000_000.25, "to": "x" * 180}


def _try(place: Place, write: Callable[[Any], bytes], read: Callable[[bytes], Any]) -> float:
    began = process_time()
    for _ in range(place.runs):
        read(write(ARGS))
    return place.runs / (process_time() - began)


WAYS: Ways = {
    "msgspec": partial(_try, write=msgspec.json.encode, read=msgspec.json.decode),
    "json": partial(_try, write=lambda args: json.dumps(args).encode(), read=json.loads),
}
