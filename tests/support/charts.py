"""Renders the templates of the Helm chart, as far as the chart uses Helm's language, for machines without Helm.

It knows values, `if`, `range`, `define` and `include`, and the few functions that the chart uses; anything else is an
error, so that a template that this cannot judge is not taken for a good one.
"""

import json
import re
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import jsonschema_rs
import yaml

_TOKEN = re.compile(r'"[^"]*"|\||\(|\)|[^\s|()]+')


class Chart:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._chart = yaml.safe_load((folder / "Chart.yaml").read_text())
        self._values = yaml.safe_load((folder / "values.yaml").read_text())
        self._defined: dict[str, list[Any]] = {}
        for file in sorted(folder.glob("templates/*.tpl")):
            self._render(_parse(file.read_text()), {})

    def render(self, release: str = "test", /, **values: Any) -> list[dict[str, Any]]:
        """Every object that the chart makes with these values, for a release of this name."""
        context = {
            "Values": _merged(self._values, values),
            "Chart": {"AppVersion": self._chart["appVersion"], "Name": self._chart["name"]},
            "Release": {"Name": release, "Namespace": "jobs", "Service": "Helm"},
        }
        jsonschema_rs.validate(json.loads((self._folder / "values.schema.json").read_text()), context["Values"])
        found: list[dict[str, Any]] = []
        for file in sorted(self._folder.glob("templates/*.yaml")):
            text = self._render(_parse(file.read_text()), context)
            found += [document for document in yaml.safe_load_all(text) if document]
        return found

    def _render(self, nodes: list[Any], context: dict[str, Any]) -> str:
        written = []
        for node in nodes:
            match node:
                case str():
                    written.append(node)
                case ("if", condition, then, otherwise):
                    written.append(self._render(then if self._value(condition, context) else otherwise, context))
                case ("range", names, over, body):
                    for pair in sorted((self._value(over, context) or {}).items()):  # as Go goes through a map
                        written.append(self._render(body, context | dict(zip(names, pair, strict=True))))
                case ("define", name, body):
                    self._defined[name] = body
                case ("value", code):
                    value = self._value(code, context)
                    written.append("" if value is None else str(value))
        return "".join(written)

    def _value(self, code: str, context: dict[str, Any]) -> Any:
        """A pipeline: each part gets what the one before it gave as its last argument."""
        result: list[Any] = []
        for part in " ".join(_TOKEN.findall(code)).split(" | "):
            words = _TOKEN.findall(part)
            result = [self._call(words, context, result)]
        return result[0]

    def _call(self, words: list[str], context: dict[str, Any], given: list[Any]) -> Any:
        name, *rest = words
        arguments = [self._word(word, context) for word in rest] + given
        match name:
            case "quote":
                return '"' + _shown(arguments[0]).replace('"', '\\"') + '"'
            case "kindIs":
                return arguments[0] == _kind(arguments[1])
            case "toJson":
                number = arguments[0]
                return json.dumps(int(number) if isinstance(number, float) and number.is_integer() else number)
            case "sha256sum":
                return sha256(arguments[0].encode()).hexdigest()
            case "default":
                return arguments[1] or arguments[0]
            case "nindent":
                pad = " " * arguments[0]
                return "\n" + "\n".join(pad + line if line else line for line in arguments[1].split("\n"))
            case "toYaml":
                return yaml.safe_dump(arguments[0], sort_keys=False).rstrip("\n")
            case "add":
                return sum(arguments)
            case "max":
                return max(arguments)
            case "eq":
                return arguments[0] == arguments[1]
            case "urlquery":
                return quote_plus(str(arguments[0]))
            case "required":
                if not arguments[1]:
                    raise ValueError(arguments[0])
                return arguments[1]
            case "include":
                return self._render(self._defined[arguments[0]], arguments[1])
            case ".Files.Get":
                return (self._folder / arguments[0]).read_text()
        if rest:
            raise ValueError(f"this renderer does not know {name!r}")
        return self._word(name, context)

    def _word(self, word: str, context: dict[str, Any]) -> Any:
        if word.startswith('"'):
            return word[1:-1]
        if word.isdigit():
            return int(word)
        if word == ".":
            return context
        if word.startswith("$"):
            return context[word]
        if not word.startswith("."):
            raise ValueError(f"this renderer does not know {word!r}")
        found: Any = context
        for name in word[1:].split("."):
            if not isinstance(found, dict):
                raise ValueError(f"{word}: there is no {name!r}")
            found = found.get(name)
        return found


def _kind(value: Any) -> str:
    """What Go calls it. Helm reads its values by way of JSON, where every number is a float."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "float64"
    return {bool: "bool", str: "string", dict: "map", list: "slice"}[type(value)]


def _shown(value: Any) -> str:
    """A value as Go shows it: numbers from a million on with an exponent."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, int | float) or not value:
        return str(value)
    _, digits, exponent = Decimal(repr(float(value))).normalize().as_tuple()
    power = len(digits) + int(exponent) - 1
    if -4 <= power < 6:
        return f"{value:g}"
    return f"{value:.{len(digits) - 1}e}"


def _parse(text: str) -> list[Any]:
    """Text, values, and blocks with what is inside them."""
    stack: list[tuple[str, str, list[Any], list[Any]]] = [("root", "", [], [])]
    position, trim_next = 0, False
    for match in re.finditer(r"\{\{(-)?\s*(.*?)\s*(-)?\}\}", text, re.DOTALL):
        before = text[position : match.start()]
        before = before.lstrip() if trim_next else before
        stack[-1][2].append(before.rstrip() if match[1] else before)
        position, trim_next = match.end(), match[3] is not None
        code = match[2]
        if code.startswith("/*"):
            continue
        if code.startswith("if "):
            stack.append(("if", code[3:], [], []))
        elif code == "else":
            kind, condition, body, _ = stack.pop()
            stack.append((kind, condition, [], body))
        elif code.startswith("range "):
            stack.append(("range", code[6:], [], []))
        elif code.startswith("define "):
            stack.append(("define", code[7:].strip('"'), [], []))
        elif code == "end":
            kind, what, body, earlier = stack.pop()
            if kind == "if":
                stack[-1][2].append(("if", what, earlier or body, body if earlier else []))
            elif kind == "range":
                names, over = what.split(" := ")
                stack[-1][2].append(("range", names.split(", "), over, body))
            else:
                stack[-1][2].append(("define", what, body))
        else:
            stack[-1][2].append(("value", code))
    rest = text[position:]
    stack[-1][2].append(rest.lstrip() if trim_next else rest)
    if len(stack) != 1:
        raise ValueError(f"a block is not closed: {stack[-1][1]}")
    return stack[0][2]


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for name, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = _merged(merged[name], value) if both else value
    return merged
