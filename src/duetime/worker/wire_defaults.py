"""A task's job defaults, encoded for the worker protocol."""

from msgspec.structs import asdict

from duetime.model.defaults import NOTHING_SAID, Defaults
from duetime.spec.bodies import RetryBody
from duetime.spec.derived import OF_TASKS
from duetime.spec.shown import SHOWN, shown_options
from duetime.wire.workers import TaskDefaults

_ENCODED = OF_TASKS.keys() & SHOWN.keys()


class _SparseRetry(RetryBody, frozen=True, omit_defaults=True):
    """A policy without its defaults: a worker sends those of all its tasks at once."""


_USUAL = shown_options(NOTHING_SAID)


def wire_defaults(defaults: Defaults) -> TaskDefaults:
    """Only values that differ from the defaults: the server knows the rest."""
    shown = shown_options(defaults)
    given = {name: shown[name] for name in _ENCODED if shown[name] != _USUAL[name]}
    if "retry" in given:
        usual = asdict(_USUAL["retry"])
        given["retry"] = _SparseRetry(
            **{name: part for name, part in asdict(given["retry"]).items() if part != usual[name]}
        )
    return TaskDefaults(**given)
