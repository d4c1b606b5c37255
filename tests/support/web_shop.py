"""A process that only submits, as a web application does: told by lines on its standard input, it answers with lines.

    python -m tests.support.web_shop DATA_FOLDER MODE

MODE says how it calls the app: `async` on one event loop, `sync` through `app.sync`, or `runs`, a new event loop for
each call. Orders: `submit N` submits N jobs one after the other, and `flood` submits until `stop`.
"""

import asyncio
import sys
import threading
from collections.abc import Callable

import duetime
from tests.support.web_tasks import make_app


def serve(submit: Callable[[str], str]) -> None:
    flooding: threading.Thread | None = None
    stopping = threading.Event()
    count = 0
    name = f"{sys.argv[2]}-{id(submit)}"

    def one() -> None:
        nonlocal count
        submit(f"{name}-{count}")
        count += 1

    def flood() -> None:
        while not stopping.is_set():
            one()

    print("ready", flush=True)
    for line in sys.stdin:
        order, *rest = line.split()
        try:
            if order == "flood":
                stopping.clear()
                flooding = threading.Thread(target=flood)
                flooding.start()
            elif order == "stop":
                stopping.set()
                assert flooding is not None
                flooding.join()
            else:
                for _ in range(int(rest[0])):
                    one()
            print(count, flush=True)
        except Exception as error:
            print(f"{type(error).__name__}: {error}", flush=True)


def main() -> None:
    app, note = make_app(sys.argv[1])
    mode = sys.argv[2]
    if mode == "sync":
        serve(lambda text: app.sync.submit(note.bind(text=text)).job_id)
    elif mode == "runs":
        serve(lambda text: asyncio.run(_submit(note, text)))
    else:
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, daemon=True).start()
        serve(lambda text: asyncio.run_coroutine_threadsafe(_submit(note, text), loop).result(60))


async def _submit(note: "duetime.Task[..., object]", text: str) -> str:
    return (await note.submit(text=text)).job_id


if __name__ == "__main__":
    main()
