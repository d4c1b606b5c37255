"""Client libraries that are imported when they are first needed, without stopping the event loop."""

import asyncio
from importlib import import_module

_loaded: set[str] = set()


async def load(*modules: str) -> None:
    """Import modules in a thread: some take a second, in which an event loop would serve no one. After that, `import`
    has them at once. Raises `ModuleNotFoundError`."""
    if not _loaded.issuperset(modules):
        await asyncio.to_thread(lambda: [import_module(name) for name in modules])
        _loaded.update(modules)
