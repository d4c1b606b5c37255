"""Client libraries are not imported on the event loop: some take a second."""

import subprocess
import sys

import pytest

# In a process of its own, because the libraries must not be imported yet.
_PROGRAM = """
import asyncio, sys, threading
import duetime.engine.stream_intake
from duetime.model.carried import StreamSettings
from duetime.process.loading import load
from duetime.streams.publisher import Publisher
from duetime.streams.setup import notes_on

LIBRARIES = {"redis", "confluent_kafka", "botocore", "aiormq", "grpc"}
where = {name: set() for name in LIBRARIES}

def heard(event, given):
    if event == "import" and given[0].partition(".")[0] in where:
        where[given[0].partition(".")[0]].add(threading.current_thread() is threading.main_thread())

async def main():
    assert not LIBRARIES & set(sys.modules)
    sys.addaudithook(heard)
    for address in ("redis://h", "kafka://h:1", "sqs://eu-west-1", "amqp://h"):
        %s
    await load("grpc.aio")

asyncio.run(main())
assert all(where.values()), where
print(sorted(name for name, on_main in where.items() if True in on_main))
"""


@pytest.mark.parametrize(
    "use", ["await Publisher().traits(StreamSettings(address))", "await notes_on(StreamSettings(address), sealed=True)"]
)
def test_a_client_library_is_imported_beside_the_event_loop(use: str) -> None:
    done = subprocess.run((sys.executable, "-c", _PROGRAM % use), capture_output=True, text=True, timeout=100)
    assert (done.stdout, done.stderr) == ("[]\n", "")
