"""Email: one message, sent through the operator's SMTP server.

    smtp://host:587      plain, then encrypted with STARTTLS if the server offers it
    smtps://host:465     encrypted from the start

With a name and a password in the URL it logs in, over an encrypted connection only.
"""

import asyncio
import smtplib
import ssl
from email.message import EmailMessage
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from duetime.errors import InvalidInput
from duetime.model.failure import Failure, FailureClass, bounded
from duetime.model.notification import check_mail_address
from duetime.model.outcome import Failed, Outcome, Succeeded
from duetime.model.target import EmailTarget
from duetime.settings import Settings
from duetime.text.visible import visible, visible_lines

_PORTS = {"smtp": 587, "smtps": 465}
_TRY_AGAIN = range(400, 500)
_ERROR_TEXT = 500
_NO_SERVER = "no mail server is configured"
_SET = "set DUETIME_SMTP_URL and DUETIME_MAIL_FROM"


class MailServer(NamedTuple):
    host: str
    port: int
    encrypted: bool
    user: str | None
    password: str | None


def read_server(url: str) -> MailServer:
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise InvalidInput(
            f"{parts.scheme}://… is not a mail server", field="smtp_url", remedy="such as smtp://host:587"
        )
    user = None if parts.username is None else unquote(parts.username)
    password = None if parts.password is None else unquote(parts.password)
    return MailServer(parts.hostname, parts.port or _PORTS[parts.scheme], parts.scheme == "smtps", user, password)


def check_can_send(settings: Settings) -> None:
    """Refuse a recipient that this server has no mail server for."""
    if settings.smtp_url is None or settings.mail_from is None:
        raise InvalidInput(_NO_SERVER, field="to.type", remedy=f"{_SET} on each server, or use a webhook or Slack")


class Mailer:
    def __init__(self, settings: Settings) -> None:
        self._server = None if settings.smtp_url is None else read_server(settings.smtp_url)
        self._sender = settings.mail_from

    async def send(self, target: EmailTarget, message_id: str, limit: float) -> Outcome:
        if self._server is None or self._sender is None:
            # Not for good: the next attempt may be made by a server that has one.
            return Failed(Failure(FailureClass.TARGET_FAILED, f"{_NO_SERVER}; {_SET}"))
        mail = _mail(target, self._sender, message_id)
        try:
            async with asyncio.timeout(limit):
                await asyncio.to_thread(_hand_over, self._server, mail, limit)
        except TimeoutError:
            return Failed(Failure(FailureClass.TIMEOUT, f"the mail server did not answer within {limit:g} s"))
        except smtplib.SMTPResponseException as error:
            kind = FailureClass.TARGET_FAILED if error.smtp_code in _TRY_AGAIN else FailureClass.TARGET_REFUSED
            return Failed(
                Failure(kind, bounded(f"the mail server answered {error.smtp_code}: {error.smtp_error!r}", _ERROR_TEXT))
            )
        except smtplib.SMTPRecipientsRefused as error:
            return Failed(_refused(error))
        except (smtplib.SMTPException, OSError) as error:
            return Failed(Failure(FailureClass.NETWORK, bounded(f"{type(error).__name__}: {error}", _ERROR_TEXT)))
        return Succeeded(None)


def _mail(target: EmailTarget, sender: str, message_id: str) -> EmailMessage:
    mail = EmailMessage()
    mail["From"] = sender
    mail["To"] = check_mail_address(target.to, "to")
    mail["Subject"] = visible(" ".join(target.subject.split()))
    mail["Message-ID"] = f"<{message_id}@duetime>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(visible_lines(target.text))
    return mail


def _hand_over(server: MailServer, mail: EmailMessage, limit: float) -> None:
    context = ssl.create_default_context()
    if server.encrypted:
        line: smtplib.SMTP = smtplib.SMTP_SSL(server.host, server.port, timeout=limit, context=context)
    else:
        line = smtplib.SMTP(server.host, server.port, timeout=limit)
    with line:
        line.ehlo()
        secret = server.encrypted
        if not secret and line.has_extn("starttls"):
            line.starttls(context=context)
            line.ehlo()
            secret = True
        if server.user is not None:
            if not secret:
                raise smtplib.SMTPException("the password would be sent unencrypted: use smtps://")
            line.login(server.user, server.password or "")
        line.send_message(mail)


def _refused(error: smtplib.SMTPRecipientsRefused) -> Failure:
    code, said = next(iter(error.recipients.values()))
    kind = FailureClass.TARGET_FAILED if code in _TRY_AGAIN else FailureClass.TARGET_REFUSED
    return Failure(kind, bounded(f"the mail server answered {code}: {said!r}", _ERROR_TEXT))
