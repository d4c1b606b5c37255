"""Outbox: a message made a job that sends it.

Being jobs, letters are durable, retried with growing pauses, and dead letters in the end, in a queue of their own. They
go by the same ways as everything that a tenant has called: the same guard of addresses, the same signatures.
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
_PATIENCE = RetryPolicy(retries=33)
"""About half a day: pauses grow to an hour, and are half of that on average."""
_FINGERPRINT = b"notification"
"""Two letters with one key are one letter, even where the error that they quote was cut in another place."""


class Outbox:
    def __init__(self, store: Store) -> None:
        self._store = store

    def write(self, tenant_id: int, subscription: Subscription, message: Message, about: str) -> NewJob:
        """A job that tells a subscription something, once, whoever writes it how often."""
        name = f"{message.topic} to {subscription.name}"
        digest = blake2b(f"{subscription.name}\n{message.topic}\n{about}".encode(), digest_size=16).hexdigest()
        task, args = _errand(subscription, message)
        job = prepare(
            task=task,
            args=args,
            max_payload=_MOST,
            tenant_id=tenant_id,
            queue=QUEUE,
            tier=Tier.MEDIUM,
            options=Options(name=name, retry=_PATIENCE),
        )
        # The keys of callers are printable: with a line break, no job of theirs can have taken a letter's.
        return msgspec.structs.replace(job, idempotency_key=f"notification\n{digest}", fingerprint=_FINGERPRINT)

    async def send(self, tenant_id: int, jobs: Sequence[NewJob]) -> bool:
        """Store letters; whether all of them are dealt with. If not, the same shall be sent again in a moment.

        A letter that cannot be stored holds up neither the others nor the other tenants. Where the database says no for
        any other reason, it says nothing about the letter: that is raised, and nothing is passed by.
        """
        settled = True
        for start in range(0, len(jobs), _BATCH):
            batch = jobs[start : start + _BATCH]
            try:
                await self._store.submit(tenant_id, batch)
            except ABOUT_ONE_JOB:
                settled &= all([await self._send_alone(tenant_id, job) for job in batch])
        return settled

    async def _send_alone(self, tenant_id: int, job: NewJob) -> bool:
        try:
            await self._store.submit(tenant_id, [job])
        except KeyInFlight:  # another node is storing it at this moment, and may yet fail
            return False
        except ABOUT_ONE_JOB as error:
            log.error("a notification of tenant %s cannot be stored, and is left out: %s", tenant_id, reason_of(error))
        return True


def _errand(subscription: Subscription, message: Message) -> tuple[str, dict[str, Any]]:
    text = visible(message.text)
    match subscription.to:
        case Webhook(url):
            said = {"type": message.topic, "timestamp": message.at.isoformat()}
            body = {**said, "text": text, "data": message.data}
            return task_for(HTTP, _place(url)), plain_target(HttpTarget(url=url, body=body))
        case Slack(url):
            return task_for(HTTP, _place(url)), plain_target(HttpTarget(url=url, body={"text": _plain(text)}))
        case Email(address):
            facts = ((name, visible_lines(str(value), indent="    ")) for name, value in message.data.items() if value)
            lines = [text, "", *(f"{name}: {value}" for name, value in facts)]
            subject = f"[duetime] {text[:150]}"
            return EMAIL, plain_target(EmailTarget(to=address, subject=subject, text="\n".join(lines)))


def _plain(text: str) -> str:
    """Slack reads `<!channel>` as a call to everybody and `<url|text>` as a link; these three characters begin all that
    it reads."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _place(url: str) -> str:
    """The place that a URL calls; it was checked when the subscription was made, and is again when it is called."""
    parts = urlsplit(url)
    return (parts.hostname or "") if parts.port in (None, 80, 443) else f"{parts.hostname}:{parts.port}"
