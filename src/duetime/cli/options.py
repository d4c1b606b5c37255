"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

Config = Annotated[Path | None, typer.Option("--config", help="Settings file (TOML). Default: ./duetime.toml, if any.")]
DatabaseUrl = Annotated[
    str | None, typer.Option("--database-url", help="postgresql://… or sqlite:///file. Default: a file in --data-dir.")
]
DataDir = Annotated[Path | None, typer.Option("--data-dir", help="The folder of the embedded SQLite file.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line, for scripts.")]
MaybeAppName = Annotated[str | None, typer.Argument(metavar="MODULE:APP", help="Your app, if it has tasks to run.")]
Slots = Annotated[int | None, typer.Option("--slots", help="Maximum concurrent async tasks.")]
Threads = Annotated[int | None, typer.Option("--threads", help="Maximum concurrent plain functions.")]
Processes = Annotated[int | None, typer.Option("--processes", help="Maximum concurrent process=True tasks.")]
Queues = Annotated[list[str] | None, typer.Option("--queue", help="Serve only this queue; may be repeated.")]
Reload = Annotated[
    bool, typer.Option("--reload", help="For development: restart when a Python file changes (duetime[reload]).")
]
Url = Annotated[str | None, typer.Option("--url", help="The server's URL, such as http://127.0.0.1:8420.")]
Key = Annotated[
    str | None, typer.Option("--key", help="The API key. Prefer DUETIME_KEY, which process lists do not show.")
]
LogLevel = Annotated[str | None, typer.Option("--log-level", help="debug, info, warning or error.")]
Host = Annotated[str | None, typer.Option("--host", help="The address that the HTTP server listens on.")]
Port = Annotated[int | None, typer.Option("--port", help="The HTTP server's port; 0 picks a free one.")]
TlsCert = Annotated[Path | None, typer.Option("--tls-cert", help="The server's certificate (PEM); enables TLS.")]
TlsKey = Annotated[Path | None, typer.Option("--tls-key", help="The key of --tls-cert (PEM).")]
TlsClientCa = Annotated[
    Path | None, typer.Option("--tls-client-ca", help="CAs (PEM) of the certificates that remote workers must present.")
]
ServerCa = Annotated[Path | None, typer.Option("--server-ca", help="CAs (PEM) to verify the server with.")]
ClientCert = Annotated[Path | None, typer.Option("--client-cert", help="The client certificate (PEM) to present.")]
ClientKey = Annotated[Path | None, typer.Option("--client-key", help="The key of --client-cert (PEM).")]
Csv = Annotated[bool, typer.Option("--csv", help="Print the columns as CSV, with a header.")]
IdempotencyKey = Annotated[
    str | None, typer.Option("--idempotency-key", help="A repeated request with the same key gets the first answer.")
]
