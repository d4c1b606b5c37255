"""docs/tutorial.md, followed word by word: its commands in a new environment, its files, and its clicks in a browser.

It prints how long each part took. `make docs-site` runs it, because it installs duetime with pip.
"""

import contextlib
import os
import pty
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, Locator, Page, expect

from duetime import __version__
from tests.browser.conftest import WIDE
from tests.support.command import ROOT

PAGE = ROOT / "docs" / "tutorial.md"
BLOCK = re.compile(r"^(?P<indent> *)```(?P<kind>\w+)\n(?P<code>.*?)^ *```$", re.MULTILINE | re.DOTALL)
SLOW = 60_000
"""Milliseconds: a reload starts a new process."""
pytestmark = [
    pytest.mark.skipif(
        "DUETIME_TEST_SITE" not in os.environ, reason="the tutorial installs duetime with pip: make docs-site runs it"
    ),
    pytest.mark.timeout(900),
]


def blocks(kind: str) -> list[str]:
    found = [match for match in BLOCK.finditer(PAGE.read_text("utf-8")) if match["kind"] == kind]
    return [re.sub(rf"^{match['indent']}", "", match["code"], flags=re.MULTILINE) for match in found]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """As on a machine that has only Python: `pip install duetime` takes the wheel of this checkout."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "dist"],
        cwd=ROOT, check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    (tmp_path / "constraints.txt").write_text(f"duetime=={__version__}\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("DUETIME_", "PYTHON", "VIRTUAL_"))
    }
    path = f"{Path(sys.base_prefix) / 'bin'}:/usr/local/bin:/usr/bin:/bin"
    return kept | {
        "PIP_FIND_LINKS": str(tmp_path / "dist"),
        "PIP_CONSTRAINT": str(tmp_path / "constraints.txt"),
        "DUETIME_PORT": str(port),
        "PATH": path,
    }


class Terminal:
    """A terminal that the reader has opened: commands share its folder and its environment."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self._folder, self._environ, self._before = folder, environ, ""

    def run(self, commands: str, code: int = 0) -> str:
        ended = subprocess.run(
            ["bash", "-e", "-c", f"{self._before}\n{commands}"],
            cwd=self._folder, env=self._environ, capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        assert ended.returncode == code, ended.stdout + ended.stderr
        self._before += "".join(line + "\n" for line in commands.splitlines() if re.match(r"cd |\. ", line))
        return ended.stdout + ended.stderr

    def enter(self) -> None:
        """What the first commands did to the terminal: it is in the new folder, with its environment."""
        self._before = "cd shop\n. .venv/bin/activate\n"

    def start(self, command: str) -> "Running":
        return Running(f"{self._before}\nexec {command}", self._folder, self._environ)


class Running:
    """A command that runs in a terminal, and what it has printed there."""

    def __init__(self, script: str, folder: Path, environ: dict[str, str]) -> None:
        self._terminal, inner = pty.openpty()
        os.set_blocking(self._terminal, False)
        self._process = subprocess.Popen(
            ["bash", "-c", script], cwd=folder, env=environ | {"COLUMNS": "300"}, start_new_session=True,
            stdin=inner, stdout=inner, stderr=inner,
        )  # fmt: skip
        os.close(inner)
        self.printed = ""

    def until(self, pattern: str, within: float = 120.0) -> re.Match[str]:
        deadline = time.monotonic() + within
        while True:
            try:
                self.printed += os.read(self._terminal, 65536).decode(errors="replace")
            except BlockingIOError:
                time.sleep(0.05)
            plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", self.printed)
            if match := re.search(pattern, plain):
                return match
            assert self._process.poll() is None and time.monotonic() < deadline, self.printed

    def stop(self) -> int:
        self._process.terminate()
        return self._process.wait(60)

    def kill(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, 9)
            self._process.wait()
        os.close(self._terminal)


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with browser.new_context(viewport=WIDE, reduced_motion="reduce") as context:
        context.set_default_timeout(SLOW)
        yield context.new_page()


def open_page(page: Page, name: str, shown: Callable[[], Locator]) -> None:
    """Click on the page's link until it shows this: while `up` restarts, the browser cannot reach it."""
    deadline = time.monotonic() + 120
    while True:
        with contextlib.suppress(Error):
            page.get_by_role("link", name=name, exact=True).click()
        try:
            return expect(shown()).to_be_visible(timeout=5_000)
        except AssertionError:
            assert time.monotonic() < deadline, f"{name} does not show it"
            with contextlib.suppress(Error):
                page.reload()


def test_the_tutorial(tmp_path: Path, environ: dict[str, str], page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    install, up, submit, buy, schedule, fail = blocks("sh")
    shop, buying, planning, repaired = blocks("python")
    expect.set_options(timeout=SLOW)
    first, second = Terminal(tmp_path, environ), Terminal(tmp_path, environ)
    began = time.monotonic()
    took: dict[str, float] = {}

    def note(what: str) -> None:
        took[what] = time.monotonic() - began

    first.run(install)
    first.enter()
    note("installed")
    code = tmp_path / "shop" / "shop.py"
    code.write_text(shop)
    running = first.start(up.strip())
    try:
        link = running.until(r"Dashboard: (http://\S+)")[1]
        page.goto(link)
        expect(page.get_by_role("heading", level=1)).to_have_text("Now")
        note("in the dashboard")
        assert "order 1 costs 4 euros" in second.run(submit)
        page.get_by_role("link", name="Runs", exact=True).click()
        page.locator("main table").get_by_role("link").first.click()
        expect(page.locator("main .head .badge")).to_have_text("Succeeded")
        expect(page.get_by_role("region", name="Result")).to_contain_text("order 1 costs 4 euros")
        note("the first own task is seen in the dashboard")

        running.printed = ""
        (tmp_path / "shop" / "buy.py").write_text(buying)
        running.until("duetime is up")
        assert "order 2 costs 3 euros" in second.run(buy)
        assert "next run" in second.run(schedule)
        open_page(page, "Jobs", lambda: page.locator("main table").get_by_text("shop.charge").first)
        running.printed = ""
        code.write_text(shop + planning)
        running.until("duetime is up")

        assert "KeyError: 'cake'" in second.run(fail, code=1)
        open_page(page, "Dead letters", lambda: page.get_by_text("KeyError: 'cake'").first)
        page.get_by_role("link", name="Newest run").click()
        expect(page.get_by_label("Error", exact=True)).to_contain_text("price = PRICES[item]")
        note("a job has failed")
        running.printed = ""
        code.write_text(re.sub(r"^PRICES = .*\n", repaired, shop, flags=re.MULTILINE) + planning)
        running.until("duetime is up")
        open_page(page, "Dead letters", lambda: page.get_by_role("button", name="Replay 1"))
        page.get_by_role("button", name="Replay 1").click()
        page.get_by_role("dialog").get_by_role("button", name="Replay 1 dead letter").click()
        expect(page.get_by_text("No dead letters.")).to_be_visible()
        page.get_by_role("link", name="Runs", exact=True).click()
        expect(page.locator("main table .badge").first).to_have_text("Succeeded")
        page.locator("main table").get_by_role("link").first.click()
        expect(page.get_by_role("region", name="Result")).to_contain_text("order 5 costs 5 euros")
        note("the failing job is repaired")
        assert running.stop() == 0
    finally:
        running.kill()
    with capsys.disabled():
        print("\n" + "\n".join(f"  {seconds:6.1f} s  {what}" for what, seconds in took.items()))
