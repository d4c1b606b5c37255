"""What the configuration of a Redis means for messages: refused if it would lose them, otherwise said in words."""

from collections.abc import Mapping

from duetime.errors import InvalidInput

_OLDEST = (6, 2)


def info_of(answer: bytes) -> dict[str, str]:
    """What Redis answers to INFO, by name."""
    lines = (line.partition(":") for line in answer.decode(errors="replace").splitlines() if not line.startswith("#"))
    return {name: value for name, colon, value in lines if colon}


def warnings_of(info: Mapping[str, str], fsync: str | bytes | None, replicas: int | None) -> list[str]:
    """What the operator must know. `info` is Redis's INFO; `fsync` is None when Redis does not tell."""
    version = str(info.get("redis_version", "0"))
    if tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) < _OLDEST:
        raise _refused(f"Redis {version} is too old", "use Redis 6.2 or newer, or Valkey")
    if info.get("redis_mode") == "cluster":
        raise _refused("Redis Cluster is not supported", "name a server that is not a part of a cluster")
    if info.get("role") != "master":
        raise _refused("this Redis is a replica, which accepts no messages", "name the primary server")
    policy = str(info.get("maxmemory_policy", "noeviction"))
    if policy.startswith("allkeys"):
        raise _refused(
            f"maxmemory-policy is {policy}: Redis would delete streams when its memory is full",
            "set maxmemory-policy to noeviction",
        )
    return [*_durability(info, fsync), *_replication(info, replicas), *_memory(info)]


def _durability(info: Mapping[str, str], fsync: str | bytes | None) -> list[str]:
    if info.get("aof_enabled") != "1":
        return [
            "This Redis has no append-only file: when it stops, messages since its last snapshot are lost. "
            "Set appendonly to yes to keep them."
        ]
    match fsync.decode() if isinstance(fsync, bytes) else fsync:
        case "always":
            return ["A message is on Redis's disk before it is accepted (appendfsync always)."]
        case "everysec":
            return [
                "When the machine of this Redis fails, up to about a second of accepted messages is lost "
                "(appendfsync everysec). When only Redis fails, none is."
            ]
        case "no":
            return [
                "When the machine of this Redis fails, messages that its system had not yet written are lost "
                "(appendfsync no). When only Redis fails, none is."
            ]
    return ["This Redis has an append-only file, but does not say how often it is flushed to disk."]


def _replication(info: Mapping[str, str], replicas: int | None) -> list[str]:
    connected = int(info.get("connected_slaves", 0))
    if replicas is None:
        return (
            ["After a failover to a replica, accepted messages that it had not received are lost."] if connected else []
        )
    if connected < replicas:
        raise InvalidInput(
            f"{replicas} are required, and Redis has {connected}", field="replicas", remedy="connect more, or lower it"
        )
    return [
        f"A message is accepted when {replicas} of {connected} replicas have received it. "
        "A failover loses no message only if one of those takes over."
    ]


def _memory(info: Mapping[str, str]) -> list[str]:
    if int(info.get("maxmemory", 0)) > 0:
        return []
    return [
        "This Redis has no maxmemory: set it, and max_depth for the queue, so that a backlog ends in a clear error."
    ]


def _refused(message: str, remedy: str) -> InvalidInput:
    return InvalidInput(message, field="stream", remedy=remedy)
