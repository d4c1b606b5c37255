"""A task's job defaults, encoded for the worker protocol."""

from msgspec.structs import asdict

from duetime.model.defaults import NOTHING_SAID, Defaults
from duetime.spec.bodies import RetryBody
from duetime.spec.derived import OF_TASKS
from duetime.spec.shown import SHOWN, shown_options
from duetime.wire.workers import TaskDefaults

_TOLD = OF_TASKS.keys() & SHOWN.keys()


class _SaidRetry(RetryBody, frozen=True, omit_defaults=True):
    """A policy without its defaults: a worker sends those of all its tasks at once."""


_USUAL = shown_options(NOTHING_SAID)


def wire_defaults(defaults: Defaults) -> TaskDefaults:
    """Only values that differ from the defaults: the server knows the rest."""
    shown = shown_options(defaults)
    told = {name: shown[name] for name in _TOLD if shown[name] != _USUAL[name]}
    if "retry" in told:
        usual = asdict(_USUAL["retry"])
        told["retry"] = _SaidRetry(
            **{name: part for name, part in asdict(told["retry"]).items() if part != usual[name]}
        )
    return TaskDefaults(**told)
