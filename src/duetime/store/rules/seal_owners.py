"""What encrypted values are bound to: moved elsewhere, they do not open."""

from uuid import UUID

from duetime.ids import show

ARGUMENTS, RESULT, ERROR, LOGS, MESSAGE, CHECKPOINT = "arguments", "result", "error", "logs", "message", "checkpoint"
CONTENT = {
    "args": ARGUMENTS,
    "result": RESULT,
    "error": ERROR,
    "logs": LOGS,
    "message": MESSAGE,
    "checkpoint": CHECKPOINT,
}
"""The columns with content of jobs and runs, of all tables."""


def content_owner(kind: str, tenant_id: int) -> str:
    return f"{kind} of tenant {tenant_id}"


def secret_owner(tenant_id: int, name: str) -> str:
    return f"tenant {tenant_id} secret {name}"


def signing_owner(tenant_id: int, secret_id: UUID) -> str:
    return f"tenant {tenant_id} secret {show('sig', secret_id)}"


def payload_owner(tenant_id: int, payload_id: UUID) -> str:
    return f"tenant {tenant_id} payload {show('pay', payload_id)}"


def shared_owner(name: str) -> str:
    """Of a secret that all nodes share."""
    return f"secret {name}"


def subscription_owner(tenant_id: int, name: str) -> str:
    """Of the address of a subscription."""
    return f"tenant {tenant_id} subscription {name}"


def stream_owner(tenant_id: int, queue: str) -> str:
    """Of the address of a stream queue."""
    return f"tenant {tenant_id} stream {queue}"
