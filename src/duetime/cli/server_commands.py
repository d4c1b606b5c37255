"""Commands that call a server: which server and key, and how answers are shown."""

import functools
import inspect
import io
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import msgspec
import typer
from rich.markup import escape
from typer.models import OptionInfo

from duetime.cli.app_loader import load_settings
from duetime.cli.job_options import flags_of, read_flags
from duetime.cli.options import Csv, DataDir, Json
from duetime.cli.output import clear_errors, err, is_terminal, print_json, say
from duetime.cli.settings_commands import CLIENT
from duetime.cli.tables import Form, columns_of, print_fields, print_list, shown
from duetime.errors import DuetimeError, InvalidInput
from duetime.spec.derived import declarations
from duetime.text.visible import visible

if TYPE_CHECKING:
    from duetime.client import Client
    from duetime.wire.fields import InStreamView

Tenant = Annotated[str | None, typer.Option("--tenant", help="The tenant to act in; requires a root key.")]

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]

_ADDED: dict[str, tuple[Any, Any]] = {
    **{name: (kind, None) for name, kind in CLIENT.items()},
    "tenant": (Tenant, None),
    "data_dir": (DataDir, None),
    "json": (Json, False),
}


class ServerCommand:
    """A command's connection to the server: the client, and how to show its answers."""

    def __init__(self, client: "Client", form: Form) -> None:
        self.client = client
        self.form = form

    @property
    def json(self) -> bool:
        return self.form == "json"

    def say(self, text: str, **facts: Any) -> None:
        say(text, json=self.json, **facts)

    def must_confirm(self, *, yes: bool) -> bool:
        """Whether to ask for confirmation before an irreversible action: only if a person is at the terminal."""
        return not yes and is_terminal(sys.stdin) and is_terminal(sys.stderr)

    def confirm(self, question: str) -> None:
        """Continue only if the answer is yes."""
        typer.confirm(visible(question), abort=True, err=True)

    def show(self, value: msgspec.Struct) -> None:
        """One object, field by field."""
        if self.json:
            print_json(value)
        else:
            print_fields(value)

    def say_in_streams(self, found: Iterable["InStreamView"]) -> None:
        """What is in streams, and therefore in no list."""
        for each in found:
            oldest = "" if each.oldest is None else f", the oldest since {shown(each.oldest)}"
            text = f"in streams: {each.depth:,} of the queue {each.queue}, {each.priority}{oldest}"
            err.print(f"[dim]{escape(text)}[/]", soft_wrap=True)

    def table(self, items: Iterable[Any], columns: str, empty: str, **computed: Callable[[Any], object]) -> None:
        """Many objects: `cli/tables.py` says how. `empty` says what to do if there are none."""
        print_list(items, columns_of(columns, computed), form=self.form, empty=empty)


def list_command(function: Callable[..., None]) -> Callable[..., None]:
    """A server command that prints a list: it also has --csv."""
    return _command(function, _ADDED | {"csv": (Csv, False)})


def server_command(function: Callable[..., None]) -> Callable[..., None]:
    """Turn a function whose first parameter is the `ServerCommand` into a command. It gets --url, --key, --tenant,
    --data-dir and --json, and its errors become one line and an exit code. `**options: Unpack[…]` becomes a flag for
    each option of a job, and for each `typer.Option`, that the typed dictionary declares."""
    return _command(function, _ADDED)


def _command(function: Callable[..., None], more: dict[str, tuple[Any, Any]]) -> Callable[..., None]:
    signature = inspect.signature(function)
    own = dict(list(signature.parameters.items())[1:])
    flags: dict[str, inspect.Parameter] = {}
    for name, parameter in list(own.items()):
        if parameter.kind is parameter.VAR_KEYWORD:
            del own[name]
            declared = get_args(parameter.annotation)[0]
            own = _typer_options(declared) | own
            flags = flags_of(declarations(declared).values(), own)

    @functools.wraps(function)
    def command(*args: Any, **given: Any) -> None:
        from duetime.client import Client
        from duetime.client.server_address import find_server
        from duetime.crypto.tls import ClientTls

        added = {name: given.pop(name) for name in more}
        tenant, json, csv = added.pop("tenant"), added.pop("json"), added.pop("csv", False)
        with clear_errors(json=json):
            if json and csv:
                raise InvalidInput("cannot be combined with --json", field="--csv")
            form: Form = "json" if json else "csv" if csv else "text"
            settings = load_settings(None, **added)
            address, found = find_server(settings)
            try:
                with Client(address, found, tenant=tenant, tls=ClientTls.of(settings)) as client:
                    options = read_flags({name: given.pop(flag.name) for name, flag in flags.items()})
                    function(ServerCommand(client, form), *args, **given, **options)
            except TimeoutError as error:
                raise DuetimeError(str(error)) from None

    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in more.items()
    ]
    both = [*own.values(), *flags.values()]
    keyword = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in both]
    command.__signature__ = signature.replace(parameters=[*keyword, *added])  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in [*both, *added]}
    return command


def _typer_options(declared: type) -> dict[str, inspect.Parameter]:
    """The parameters that a typed dictionary declares with `typer.Option`, for commands that share them."""
    return {
        name: inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)
        for name, hint in get_type_hints(declared, include_extras=True).items()
        if any(isinstance(each, OptionInfo) for each in getattr(hint, "__metadata__", ()))
    }


def limited(items: Iterable[Any], limit: int) -> list[Any]:
    """The first items of a long list; later pages are not requested."""
    found = []
    for item in items:
        found.append(item)
        if len(found) >= limit:
            break
    return found


def read_lines(file: Path) -> list[str]:
    """The lines of a file, or of standard input for `-`."""
    try:
        content = _piped_in() if str(file) == "-" else file.read_bytes()
        text = content.decode("utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}", field=str(file)) from None
    except UnicodeDecodeError:
        raise InvalidInput("cannot be read: it is not UTF-8", field=str(file)) from None
    # Not `splitlines`, which also splits at characters that JSON allows inside a string.
    return [line.rstrip("\n") for line in io.StringIO(text, newline=None)]


def _piped_in() -> bytes:
    if sys.stdin is None:
        raise InvalidInput("cannot be read: standard input is closed", field="-", remedy="pipe it in, or give a file")
    return sys.stdin.buffer.read()
