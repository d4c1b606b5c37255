"""The options in the dashboard's job form: a JavaScript module, generated from `spec/options.py`.

The form shows, explains, checks and sends every option that this module lists. It declares none itself.
"""

from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from duetime.model.schedule import BOUNDS, KINDS
from duetime.spec.derived import OF_EDITS, OF_SUBMISSIONS, OF_TASKS, OPTIONS, Declared, declarations
from duetime.spec.options import Chained, Identity, JobOptions, Once, Recurring, TaskOptions, Waits, Words

MODULE = "core/job_options.js"

_GROUPS: dict[str, tuple[type, ...]] = {
    "How it runs": (TaskOptions,),
    "Labels": (JobOptions,),
    "When": (Words, Once, Recurring),
    "Other jobs": (Waits, Chained),
    "Identity": (Identity,),
}
_GROUP_OF: dict[str, str] = {}
for _group, _classes in _GROUPS.items():
    for _name in declarations(*_classes):
        _GROUP_OF.setdefault(_name, _group)


def options_module() -> bytes:
    shown = [_shown(declared) for declared in OPTIONS.values()]
    groups = [*_GROUPS, "More"]
    shown.sort(key=lambda each: groups.index(each["group"]))
    return b"export const OPTIONS = " + msgspec.json.encode(shown) + b";\n"


def _shown(declared: Declared) -> dict[str, Any]:
    name = declared.name
    return {
        "name": name,
        "group": _GROUP_OF.get(name, "More"),
        "schedule": "kind" if name in KINDS else "bound" if name in BOUNDS else None,
        "of_tasks": name in OF_TASKS,
        "of_submissions": name in OF_SUBMISSIONS,
        "of_edits": name in OF_EDITS,
        "removable": declared.is_removable,
        "choices": _choices(declared.kind.wire),
        "schema": msgspec.json.schema(declared.wire),
    }


def _choices(wire: Any) -> list[str] | None:
    """The choices in the declared order, if the option accepts nothing else."""
    origin = get_origin(wire)
    if origin is Annotated:
        return _choices(get_args(wire)[0])
    if origin in (Union, UnionType):
        found = [_choices(each) for each in get_args(wire)]
        return None if None in found else [each for some in found for each in some or ()]
    return list(get_args(wire)) if origin is Literal else None
