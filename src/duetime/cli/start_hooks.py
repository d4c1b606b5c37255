"""Where an error in a start hook of an app happened: the frames above the hook are duetime's, and say nothing."""

import traceback
from typing import NamedTuple


class HookPlace(NamedTuple):
    text: str
    """The hook's name, its file, and the line in it."""
    traceback: str
    """From the hook on."""


def hook_of(error: BaseException) -> HookPlace | None:
    """None if the error was not raised in a start hook."""
    for above, (frame, _) in enumerate(traceback.walk_tb(error.__traceback__)):
        if (frame.f_globals.get("__name__"), frame.f_code.co_qualname) == ("duetime.sdk.app", "App.started"):
            trace = traceback.TracebackException.from_exception(error)
            trace.stack = traceback.StackSummary.from_list(trace.stack[above + 1 :])
            if not trace.stack:
                return None
            hook = trace.stack[0]
            return HookPlace(f"the start hook {hook.name} ({hook.filename}, line {hook.lineno})", _shown(trace))
    return None


def _shown(trace: traceback.TracebackException) -> str:
    return "".join(trace.format()).rstrip()
