"""The reference that is written from the code: the Python API, the commands and the HTTP endpoints."""

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

import duetime
from duetime.cli.main import application

ROOT = Path(__file__).parents[2]
GROUPS = {
    "The app and its tasks": ("App", "Task", "Call", "Receipt", "SyncReceipt", "JobReceipt"),
    "Inside a task": ("BaseContext", "Context", "SyncContext", "current_context", "FailedAttempt", "SucceededAttempt"),
    "How an attempt ends": ("RetryPolicy", "RetryAfter", "Snooze", "Cancel", "GiveUp"),
    "Clients": ("Client", "AsyncClient", "ClientTls"),
}
"""What comes first, and in this order. The rest follows: errors, then all other names."""


def pages() -> dict[str, str]:
    return {"reference/python": python(), "reference/commands": commands(), "reference/http": http()}


# The Python API


def python() -> str:
    named = {name for names in GROUPS.values() for name in names}
    public = [name for name in duetime.__all__ if not name.startswith("__") and name not in named]
    errors = [name for name in public if _is_error(getattr(duetime, name))]
    groups = GROUPS | {
        "Errors": tuple(errors),
        "Values": tuple(name for name in public if name not in errors),
    }
    parts = ["# The Python API", "Everything that `import duetime` offers, from its annotations and docstrings."]
    for title, names in groups.items():
        parts.append(f"## {title}")
        for name in names:
            parts += _entry(name, getattr(duetime, name), "###")
    return "\n\n".join(parts) + "\n"


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Exception)


def _entry(name: str, value: Any, level: str) -> Iterator[str]:
    yield f"{level} {name}"
    if isinstance(value, type):
        if _is_error(value) and value.__base__ is not Exception:
            yield f"A kind of `{', '.join(base.__name__ for base in value.__bases__)}`."
        yield _text(value.__doc__)
        if _is_error(value):
            return
        yield _signature(name, value)
        for member, found in _members(value):
            yield f"**`{member}`**"
            if callable(found):
                yield _signature(member, found)
            yield _text(inspect.getdoc(found))
    else:
        yield _signature(name, value)
        yield _text(inspect.getdoc(value))


def _members(value: type) -> Iterator[tuple[str, Any]]:
    for name, member in inspect.getmembers_static(value):
        if name.startswith("_") or isinstance(member, type):
            continue
        if isinstance(member, property):
            yield name, member
        elif inspect.isfunction(member) or isinstance(member, classmethod | staticmethod):
            yield name, getattr(value, name)


def _signature(name: str, value: Any) -> str:
    try:
        signature = str(inspect.signature(value))
    except (TypeError, ValueError):
        return ""
    signature = re.sub(r"\(self(?:, )?(?:/, )?", "(", signature)
    signature = re.sub(r"\b(?:duetime|collections|typing|datetime)(?:\.\w+)*\.(\w+)", r"\1", signature).replace("'", "")
    keyword = "async " if inspect.iscoroutinefunction(value) else ""
    return f"```python no-run\n{keyword}{name}{signature}\n```"


def _text(doc: str | None) -> str:
    """A docstring, which is Markdown. One that dataclasses wrote is only a signature."""
    return inspect.cleandoc(doc) if doc and not re.match(r"\w+\(", doc) else ""


# The commands


def commands() -> str:
    root = typer.main.get_command(application)
    parts = ["# All commands", "Written from the commands themselves: the same text as `duetime COMMAND --help`."]
    for path, command in _leaves("duetime", root):
        parts += [f"## {path}", _plain(command.help)]
        arguments = [each for each in command.params if each.param_type_name == "argument"]
        options = [each for each in command.params if each.param_type_name == "option" and not each.hidden]
        usage = " ".join([path, *(_place(each) for each in arguments), "[OPTIONS]"])
        parts.append(f"```text\n{usage}\n```")
        rows = [(_flags(each), _cell(each)) for each in options if each.name != "help"]
        if rows:
            parts.append("| option | what it does |\n| --- | --- |\n" + "\n".join(f"| {a} | {b} |" for a, b in rows))
    return "\n\n".join(part for part in parts if part) + "\n"


def _leaves(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
        return
    for name, each in inner.items():
        if not each.hidden:
            yield from _leaves(f"{path} {name}", each)


def _place(argument: Any) -> str:
    name = f"{argument.name.upper()}{'…' if argument.nargs == -1 else ''}"
    return name if argument.required else f"[{name}]"


def _flags(option: Any) -> str:
    return ", ".join(f"`{flag}`" for flag in [*option.opts, *option.secondary_opts])


def _plain(text: str | None) -> str:
    """Without the markup of the terminal."""
    return re.sub(r"\[/?(?:bold|dim|cyan|green|yellow|red|italic)\]", "", inspect.cleandoc(text or "")).replace(
        "\f", ""
    )


def _cell(option: Any) -> str:
    text = " ".join(_plain(option.help).split()).replace("|", "\\|").replace("<", "&lt;")
    return text + (f" Variable: `{option.envvar}`." if isinstance(option.envvar, str) else "")


# The HTTP endpoints


def http() -> str:
    document = json.loads((ROOT / "openapi.json").read_text())
    parts = [
        "# All endpoints",
        "Written from the table of endpoints. The same as a file for tools:"
        ' <a href="../openapi.json">openapi.json</a>. [The HTTP API](../api.md) explains how the parts work together.',
    ]
    tagged: dict[str, list[tuple[str, str, Any]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            tagged.setdefault(operation["tags"][0], []).append((method.upper(), path, operation))
    for tag, operations in tagged.items():
        parts.append(f"## {tag}")
        for method, path, operation in operations:
            parts += [f"### {method} {path}", f"{operation['summary']}.", operation.get("description", "")]
            parts += _about(operation)
    parts.append("## Types")
    for name, schema in sorted(document["components"]["schemas"].items()):
        parts += [f"### {name}", _said(schema), _fields(schema)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _about(operation: Any) -> Iterator[str]:
    facts = [("Method of the client", f"`{operation['operationId']}`")]
    if action := operation.get("x-duetime-action"):
        facts.append(("The key must be allowed to", f"`{action}`"))
    if body := operation.get("requestBody"):
        facts.append(("Body", ", ".join(_type(each.get("schema", {})) for each in body["content"].values())))
    for status, answer in operation["responses"].items():
        if status.startswith("2"):
            kinds = ", ".join(_type(each.get("schema", {})) for each in answer.get("content", {}).values())
            facts.append(("Response", f"{status} {kinds}".strip()))
    yield "\n".join(f"- {name}: {value}" for name, value in facts)
    given = [each for each in operation.get("parameters", ()) if each["in"] != "path"]
    if given:
        rows = "\n".join(
            f"| `{each['name']}` | {each['in']} | {_type(each['schema'])} | {_said(each)} |" for each in given
        )
        yield f"| parameter | in | type | meaning |\n| --- | --- | --- | --- |\n{rows}"


def _fields(schema: Any) -> str:
    if "properties" not in schema:
        values = ", ".join(f"`{value}`" for value in schema.get("enum", ()))
        return f"One of {values}." if values else f"{_type(schema)}."
    required = schema.get("required", ())
    rows = "\n".join(
        f"| `{name}`{'' if name in required else ' (optional)'} | {_type(each)} | {_said(each)} |"
        for name, each in schema["properties"].items()
    )
    return f"| field | type | meaning |\n| --- | --- | --- |\n{rows}"


def _type(schema: Any) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[`{name}`](#{name.lower()})"
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(_type(each) for each in schema[several])
    kind = schema.get("type", "any")
    return f"`{'` or `'.join(kind) if isinstance(kind, list) else kind}`"


def _said(about: Any) -> str:
    return " ".join(about.get("description", "").split()).replace("|", "\\|")
