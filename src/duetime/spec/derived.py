"""What follows from the declarations in `spec/options.py`, derived at import: none of it is written by hand or
generated."""

from collections.abc import Callable, Iterable
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Meta, UnsetType

from duetime.duration import format_duration, parse_duration
from duetime.errors import InvalidInput
from duetime.spec.kinds import Kind, Option, read_seconds
from duetime.spec.options import EditOptions, Policies, ScheduleOptions, SubmitOptions, TaskOptions, TenantOptions


class Declared(NamedTuple):
    """One option."""

    name: str
    kind: Kind
    option: Option
    is_removable: bool
    read: Callable[[Any], Any]
    """From a Python or JSON value to the stored value."""
    read_decoded: Callable[[Any], Any]
    """The same for a value that the JSON type has validated."""

    @property
    def wire(self) -> Any:
        """The JSON type, with its bounds and its description."""
        bounds: dict[str, Any] = {}
        if self.kind.wire is int:
            bounds = {"ge": self.option.at_least, "le": self.option.at_most}
        examples = None if self.option.example is None else [self.option.example]
        return Annotated[self.kind.wire, Meta(description=self.option.doc, examples=examples, **bounds)]

    @property
    def answer(self) -> Any:
        """The JSON type in answers, with its description."""
        shown = self.kind.wire if self.kind.answer is None else self.kind.answer
        doc = f"{self.option.doc} Seconds." if shown is float else self.option.doc
        return Annotated[shown, Meta(description=doc)]

    @property
    def flag(self) -> str:
        return self.option.flag or "--" + self.name.replace("_", "-")


def _declared(name: str, hint: Any) -> Declared | None:
    hint, *metadata = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    option = next((each for each in metadata if isinstance(each, Option)), None)
    if option is None:
        return None
    parts = [hint, *get_args(hint)]
    inside = (each for part in parts if get_origin(part) is Annotated for each in part.__metadata__)
    kind = next(each for each in (*metadata, *inside) if isinstance(each, Kind))
    read = _reader(name, kind, option)
    bounds_are_checked = kind.wire is int or (option.at_least is None and option.at_most is None)
    decoded = _unread if kind.is_checked and bounds_are_checked else read
    return Declared(name, kind, option, type(None) in parts, read, decoded)


def _unread(value: Any) -> Any:
    return value


def _reader(name: str, kind: Kind, option: Option) -> Callable[[Any], Any]:
    least, most = option.at_least, option.at_most
    read = kind.read
    if least is None and most is None:
        return lambda value: read(value, name)
    remedy = _range(least, most, in_time=read is read_seconds)

    def bounded(value: Any) -> Any:
        found = read(value, name)
        if (least is not None and found < least) or (most is not None and found > most):
            raise InvalidInput(f"{value} is out of range", field=name, remedy=remedy)
        return found

    return bounded


def _range(least: float | None, most: float | None, *, in_time: bool) -> str:
    low, high = (
        None if bound is None else format_duration(parse_duration(bound)) if in_time else f"{bound:,}"
        for bound in (least, most)
    )
    return f"at most {high}" if low is None else f"at least {low}" if high is None else f"{low} to {high}"


def declarations(*classes: type) -> dict[str, Declared]:
    hints: dict[str, Any] = {}
    for each in classes:
        hints |= get_type_hints(each, include_extras=True)
    found = (_declared(name, hint) for name, hint in hints.items())
    return {declared.name: declared for declared in found if declared is not None}


OPTIONS = declarations(SubmitOptions, ScheduleOptions)
"""Every option by its name."""
OF_TASKS = declarations(TaskOptions)
OF_TENANTS = declarations(TenantOptions)
OF_SUBMISSIONS = declarations(SubmitOptions)
OF_SCHEDULES = declarations(ScheduleOptions)
OF_EDITS = declarations(EditOptions)
POLICIES = declarations(Policies)


def request_struct(name: str, options: Iterable[Declared], base: type, doc: str, *, frozen: bool = True) -> Any:
    """A JSON object with a field for each option; null is the same as absent."""
    fields = [(each.name, each.wire | None, None) for each in options]
    return msgspec.defstruct(name, fields, bases=(base,), namespace={"__doc__": doc}, frozen=frozen)


def patch_struct(name: str, options: Iterable[Declared], base: type, doc: str, *, all_removable: bool = False) -> Any:
    """A JSON object with a field for each option; null removes an option that can be removed."""
    fields = [
        (
            each.name,
            each.wire | UnsetType | None if each.is_removable or all_removable else each.wire | UnsetType,
            UNSET,
        )
        for each in options
    ]
    return msgspec.defstruct(name, fields, bases=(base,), namespace={"__doc__": doc}, frozen=True)


def answer_struct(name: str, options: Iterable[Declared], base: type, doc: str) -> Any:
    """A JSON object that shows these options in addition to `base`; null where an option is not set."""
    fields = [(each.name, each.answer | None if each.is_removable else each.answer) for each in options]
    return msgspec.defstruct(name, fields, bases=(base,), namespace={"__doc__": doc}, frozen=True, kw_only=True)
