"""A tenant: the owner of jobs, keys and limits; the isolation boundary. A queue: a named line of runs inside it."""

import msgspec


class Tenant(msgspec.Struct, frozen=True):
    id: int
    name: str


class Queue(msgspec.Struct, frozen=True):
    tenant_id: int
    name: str
    paused: bool = False
