"""The outbox turns a notification into a job that sends it.

As jobs, notifications are durable, are retried with growing delays, and end as dead letters. They have their own queue.
They use the same targets as a tenant's jobs: the same address guard and the same signatures.
"""

import logging
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any
from urllib.parse import urlsplit

import msgspec

from duetime.engine.intake import prepare
from duetime.engine.submit_batcher import ABOUT_ONE_JOB
from duetime.errors import KeyInFlight, reason_of
from duetime.model.job import NewJob, Options
from duetime.model.lane import Tier
from duetime.model.notification import QUEUE, Email, Message, Slack, Subscription, Webhook
from duetime.model.retry import RetryPolicy
from duetime.model.target import EMAIL, HTTP, EmailTarget, HttpTarget, plain_target, task_for
from duetime.store.protocol.store import Store
from duetime.text.visible import visible, visible_lines

log = logging.getLogger("duetime.notifier")

_MOST = 256 * 1024
_BATCH = 1000
_RETRY = RetryPolicy(retries=33)
"""About half a day: delays grow to an hour, and are half of that on average."""
_FINGERPRINT = b"notification"
"""Two notifications with one key are the same, even if the quoted error was truncated at a different place."""


class Outbox:
    def __init__(self, store: Store) -> None:
        self._store = store

    def write(self, tenant_id: int, subscription: Subscription, message: Message, about: str) -> NewJob:
        """A job that sends a message to a subscription. It is sent once, however often and on however many nodes it is
        written."""
        name = f"{message.topic} to {subscription.name}"
        digest = blake2b(f"{subscription.name}\n{message.topic}\n{about}".encode(), digest_size=16).hexdigest()
        task, args = _target_of(subscription, message)
        job = prepare(
            task=task,
            args=args,
            max_payload=_MOST,
            tenant_id=tenant_id,
            queue=QUEUE,
            tier=Tier.MEDIUM,
            options=Options(name=name, retry=_RETRY),
        )
        # Callers' keys are printable. The line break keeps them from colliding with a notification's key.
        return msgspec.structs.replace(job, idempotency_key=f"notification\n{digest}", fingerprint=_FINGERPRINT)

    async def send(self, tenant_id: int, jobs: Sequence[NewJob]) -> bool:
        """Store notifications; whether all of them are settled. If not, send the same ones again in a moment.

        A notification that cannot be stored delays neither the others nor other tenants. Any other database error says
        nothing about the notification: it is raised, and none is skipped.
        """
        settled = True
        for start in range(0, len(jobs), _BATCH):
            batch = jobs[start : start + _BATCH]
            try:
                await self._store.intake.submit(tenant_id, batch)
            except ABOUT_ONE_JOB:
                settled &= all([await self._send_alone(tenant_id, job) for job in batch])
        return settled

    async def _send_alone(self, tenant_id: int, job: NewJob) -> bool:
        try:
            await self._store.intake.submit(tenant_id, [job])
        except KeyInFlight:  # another node is storing it now, and may still fail
            return False
        except ABOUT_ONE_JOB as error:
            log.error("cannot store a notification of tenant %s, skipping it: %s", tenant_id, reason_of(error))
        return True


def _target_of(subscription: Subscription, message: Message) -> tuple[str, dict[str, Any]]:
    text = visible(message.text)
    match subscription.to:
        case Webhook(url):
            said = {"type": message.topic, "timestamp": message.at.isoformat()}
            body = {**said, "text": text, "data": message.data}
            return task_for(HTTP, _host_of(url)), plain_target(HttpTarget(url=url, body=body))
        case Slack(url):
            return task_for(HTTP, _host_of(url)), plain_target(
                HttpTarget(url=url, body={"text": _escape_for_slack(text)})
            )
        case Email(address):
            facts = ((name, visible_lines(str(value), indent="    ")) for name, value in message.data.items() if value)
            lines = [text, "", *(f"{name}: {value}" for name, value in facts)]
            subject = f"[duetime] {text[:150]}"
            return EMAIL, plain_target(EmailTarget(to=address, subject=subject, text="\n".join(lines)))


def _escape_for_slack(text: str) -> str:
    """Escape Slack markup: Slack reads `<!channel>` as a mention of all members and `<url|text>` as a link. All its
    markup begins with one of these three characters."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _host_of(url: str) -> str:
    """The host that a URL calls. The URL was checked when the subscription was created, and is checked again on each
    call."""
    parts = urlsplit(url)
    return (parts.hostname or "") if parts.port in (None, 80, 443) else f"{parts.hostname}:{parts.port}"
