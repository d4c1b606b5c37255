"""FastAPI, and everything else with Starlette's lifespans: an app that runs as long as the web application does.

api = FastAPI(lifespan=lifespan(jobs))
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any

from duetime.embedded.app import App

Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]


def lifespan(app: App, *, work: bool = True, around: Lifespan | None = None) -> Lifespan:
    """A lifespan that runs the app on the event loop of the web application.

    With `work=False` it only connects, and other processes run the tasks. `around` is your own lifespan: it begins
    before the app starts, and ends after it has stopped.
    """

    @asynccontextmanager
    async def of(host: Any) -> AsyncIterator[Any]:
        async with nullcontext() if around is None else around(host) as state, app.running() if work else app:
            yield state

    return of
