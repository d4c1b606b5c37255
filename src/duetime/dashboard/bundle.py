"""The modules of the dashboard in one script. A browser that loads each of them shows its first page much later.

In the script, each module is a function that returns its exports, and comes after the modules that it imports. This
knows the forms of import and export that the dashboard uses, and refuses others. Other people's modules (`vendor/`)
stay files of their own.
"""

import posixpath
import re
from collections.abc import Mapping

_IMPORT = re.compile(r'^import (?:\{([^}]*)\}|(\w+)) from "([^"]+)";$', re.MULTILINE)
_PASSED_ON = re.compile(r'^export \{([^}]*)\} from "([^"]+)";$', re.MULTILINE)
_NAMED = re.compile(r"^export \{([^}]*)\};$", re.MULTILINE)
_DECLARED = re.compile(r"^export (?=(?:async function|function|class|const) ([\w$]+))", re.MULTILINE)
_OTHER = re.compile(r"^(?:import|export)\b.*$|\bimport(?:\(|\.meta).*$", re.MULTILINE)
_VENDOR = "vendor/"


def bundle(entry: str, modules: Mapping[str, str]) -> str:
    """`entry` and all modules that it imports, as one module that lies beside `entry`."""
    order: dict[str, str | None] = {}
    _link(entry, modules, order)
    numbers = {name: f"$m{number}" for number, name in enumerate(order)}
    parts = [
        f'import * as {numbers[name]} from "./{name}";\n'
        if text is None
        else f"// {name}\nconst {numbers[name]} = (() => {{\n{text}}})();\n"
        for name, text in order.items()
    ]
    return re.sub(r"\$module\(([^)]+)\)", lambda found: numbers[found[1]], "".join(parts))


def _link(name: str, modules: Mapping[str, str], order: dict[str, str | None], path: tuple[str, ...] = ()) -> None:
    """Append a module to `order`, after what it imports; None stands for another file. Modules refer to each other by
    `$module(name)`."""
    if name in path:
        raise ValueError(f"these modules import each other: {' → '.join((*path, name))}")
    if name in order:
        return
    if name.startswith(_VENDOR):
        order[name] = None
        return
    exports: list[str] = []

    def module(address: str) -> str:
        imported = posixpath.normpath(posixpath.join(posixpath.dirname(name), address))
        _link(imported, modules, order, (*path, name))
        return f"$module({imported})"

    def import_(found: re.Match[str]) -> str:
        names, default, address = found.groups()
        taken = f" default: {default} " if names is None else names.replace(" as ", ": ")
        return f"const {{{taken}}} = {module(address)};"

    def pass_on(found: re.Match[str]) -> str:
        names, address = found.groups()
        exports.extend(_names(names))
        return f"const {{{names}}} = {module(address)};"

    def export_names(found: re.Match[str]) -> str:
        exports.extend(_names(found[1]))
        return ""

    def export(found: re.Match[str]) -> str:
        exports.append(found[1])
        return ""

    text = _IMPORT.sub(import_, modules[name])
    text = _PASSED_ON.sub(pass_on, text)
    text = _NAMED.sub(export_names, text)
    text = _DECLARED.sub(export, text)
    if (other := _OTHER.search(text)) is not None:
        raise ValueError(f"{name}: this form of import or export is not known here: {other[0][:80]}")
    order[name] = f"{text.rstrip()}\nreturn {{ {', '.join(exports)} }};\n"


def _names(listed: str) -> list[str]:
    names = [name.strip() for name in listed.split(",") if name.strip()]
    if (wrong := next((name for name in names if not name.isidentifier()), None)) is not None:
        raise ValueError(f"an export may have no other name than its own: {wrong}")
    return names
