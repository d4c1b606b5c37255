"""Values for shell completion: names and ids that the server knows.

A shell asks while its user waits, so an answer takes two seconds at most, and a server that is not there is no error:
then nothing is suggested.
"""

from collections.abc import Callable, Iterable
from threading import Thread
from typing import TYPE_CHECKING, Any, get_args

import typer

from duetime.cli.app_loader import load_settings
from duetime.cli.settings_commands import CLIENT
from duetime.model.lists import JobStatus
from duetime.wire.runs import RunStateName

if TYPE_CHECKING:
    from duetime.client import Client

Suggestions = list[tuple[str, str]]
"""Values, each with a note."""
Complete = Callable[[typer.Context, str], Suggestions]

_DEADLINE = 2.0
_MOST = 50


def _among(choices: Iterable[str]) -> Complete:
    found = sorted(choices)
    return lambda ctx, incomplete: [(each, "") for each in found if each.startswith(incomplete)]


def _asked(ask: "Callable[[Client], Iterable[tuple[str, str | None]]]") -> Complete:
    def complete(ctx: typer.Context, incomplete: str) -> Suggestions:
        found: Suggestions = []

        def read() -> None:
            try:
                with _client(ctx) as client:
                    found.extend((value, note or "") for value, note in ask(client) if value.startswith(incomplete))
            except Exception:
                return  # a shell has no place to show it

        reader = Thread(target=read, daemon=True)
        reader.start()
        reader.join(_DEADLINE)
        return list(found)

    return complete


def _client(ctx: typer.Context) -> "Client":
    from duetime.client import Client
    from duetime.client.server_address import find_server
    from duetime.crypto.tls import ClientTls

    given: dict[str, Any] = {name: ctx.params.get(name) for name in (*CLIENT, "data_dir")}
    settings = load_settings(None, **given)
    address, key = find_server(settings)
    return Client(address, key, tenant=ctx.params.get("tenant"), tries=1, tls=ClientTls.of(settings))


job_status = _among(each.value for each in JobStatus)
run_status = _among(get_args(RunStateName))
role = _among(("admin", "operator", "submitter", "viewer", "worker", "root"))
task = _asked(lambda client: [(each.name, f"{each.workers} workers") for each in client.list_tasks().items])
queue = _asked(lambda client: [(each.name, "paused" if each.paused else None) for each in client.list_queues().items])
calendar = _asked(lambda client: [(each.name, f"{len(each.dates)} days") for each in client.list_calendars().items])
job = _asked(
    lambda client: [
        (each.job_id, " ".join(filter(None, (each.task, each.name))))
        for each in client.list_jobs(page_size=_MOST).items
    ]
)
run = _asked(
    lambda client: [(each.run_id, f"{each.task} {each.status}") for each in client.list_runs(page_size=_MOST).items]
)
