"""`duetime up` as a service: its first key, its address, its link."""

import json
import os
import re
import select
import urllib.request
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from duetime import App
from tests.support.command import Command, only_line, run

HELLO = "examples.hello:app"


def ask(url: str, key: str, body: Any = None) -> Any:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=10) as answer:
        return json.load(answer)


def test_up_makes_its_first_key_and_keeps_it(tmp_path: Path) -> None:
    folder = tmp_path / "duetime-data"
    keys = []
    for _ in range(2):
        with Command(tmp_path, "up", HELLO, "--json") as up:
            # A run that the start hook scheduled may end, and be printed, before the address.
            up.until(lambda up: any("url" in line for line in up.lines))
            keys.append((folder / "admin-key").read_text().strip())
            url = next(line["url"] for line in up.lines if "url" in line)
            assert (folder / "server-url").read_text().strip() == url
            for name in ("admin-key", "encryption-key", "server-url"):
                assert (folder / name).stat().st_mode & 0o777 == 0o600
            made = ask(f"{url}/v1/jobs", keys[-1], {"task": "examples.hello.greet", "args": {"name": "HTTP"}})
            up.until(lambda up, run_id=made["run_id"]: run_id in up.stdout)  # type: ignore[misc]
            stored = ask(f"{url}/v1/jobs/{made['job_id']}", keys[-1])
            assert stored["args"] == {"name": "HTTP"}
            assert up.stop() == 0
            assert "token=" not in up.stdout + up.stderr
        assert not (folder / "server-url").exists(), "no server runs any more"
    assert keys[0] == keys[1]


def greet(name: str) -> str:
    return name


async def test_who_knows_only_the_file_submits_through_its_server(tmp_path: Path) -> None:
    """The file is given by its URL, and each process has a working folder and a data folder of its own."""
    url = f"sqlite:///{tmp_path / 'mine.db'}"
    with Command(tmp_path / "server", "up", HELLO, "--json", environ={"DUETIME_DATABASE_URL": url}) as up:
        up.until(lambda up: any("url" in line for line in up.lines))
        async with App(database_url=url) as app:
            receipt = await app.task(name="examples.hello.greet")(greet).submit("neighbour")
            assert await receipt.result("30s") == "Hello, neighbour!"
        code, listed = run(tmp_path / "client", "jobs", "list", environ={"DUETIME_DATABASE_URL": url})
        assert (code, receipt.job_id in listed.stdout) == (0, True), listed


def test_the_link_is_for_a_terminal_and_logs_in(tmp_path: Path) -> None:
    terminal, other_side = os.openpty()
    with Command(tmp_path, "up", stdout=other_side):
        os.close(other_side)
        shown = ""
        while (link := re.search(r"http\S+/login\?token=\S+(?= )", shown)) is None:
            assert select.select([terminal], [], [], 30)[0], shown
            shown += os.read(terminal, 4096).decode()
        log_in(link[0])
    os.close(terminal)


def test_a_log_shows_no_link_but_how_to_get_one(tmp_path: Path) -> None:
    """Also where rich is made to believe in a terminal."""
    with Command(tmp_path, "up", environ={"FORCE_COLOR": "1", "TTY_COMPATIBLE": "1"}) as up:
        up.until(lambda up: "duetime login-link" in up.stdout)
        code, asked = run(tmp_path, "login-link")
        assert code == 0
        log_in(asked.stdout.strip())
        assert up.stop() == 0
        assert "token=" not in up.stdout + up.stderr


def log_in(link: str) -> None:
    with pytest.raises(HTTPError) as answer:
        urllib.request.build_opener(_Stay).open(link, timeout=10)
    assert (answer.value.code, answer.value.headers["Location"]) == (303, "/")
    assert answer.value.headers["Set-Cookie"].startswith("duetime_session=")
    answer.value.close()


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with Command(tmp_path / "one", "up", "--json") as up:
        up.until(lambda up: up.lines)
        port = up.lines[0]["url"].rpartition(":")[2]
        code, second = run(tmp_path / "two", "up", "--port", port)
        assert (code, "cannot listen on" in only_line(second)) == (2, True)


def test_a_root_key_from_the_command_line(tmp_path: Path) -> None:
    code, made = run(tmp_path, "root-key", "--json")
    assert code == 0 and made.lines[0]["key"].startswith("dt_live_")
    with Command(tmp_path, "up", "--json") as up:
        up.until(lambda up: up.lines)
        url = up.lines[0]["url"]
        assert ask(f"{url}/v1/jobs", made.lines[0]["key"])["items"] == []
        keys = ask(f"{url}/v1/admin/keys?root=true", made.lines[0]["key"])["items"]
        assert [key["expires_at"] for key in keys] == [None, None], "the owner of a machine is not locked out"
