"""A mail server on a free port that keeps what it is given: as much of SMTP as a client needs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email import message_from_bytes
from email.message import Message


class Mailbox:
    def __init__(self) -> None:
        self.port = 0
        self.mails: list[Message] = []
        self.refuse: bytes | None = None
        """What is said to a recipient, instead of yes."""

    @property
    def url(self) -> str:
        return f"smtp://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mailbox\r\n")
        while line := await reader.readline():
            command = line[:4].upper()
            if command == b"DATA":
                writer.write(b"354 go on\r\n")
                body = await reader.readuntil(b"\r\n.\r\n")
                self.mails.append(message_from_bytes(body[:-5]))
                writer.write(b"250 kept\r\n")
            elif command == b"RCPT" and self.refuse is not None:
                writer.write(self.refuse + b"\r\n")
            elif command == b"QUIT":
                writer.write(b"221 bye\r\n")
                break
            else:
                writer.write(b"250 fine\r\n")
        writer.close()


@asynccontextmanager
async def mailbox() -> AsyncIterator[Mailbox]:
    box = Mailbox()
    server = await asyncio.start_server(box.serve, "127.0.0.1", 0)
    box.port = server.sockets[0].getsockname()[1]
    async with server:
        yield box
