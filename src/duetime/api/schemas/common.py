"""Shapes that several endpoints share."""

from typing import Literal

import msgspec


class Health(msgspec.Struct, frozen=True):
    status: Literal["ok"]
