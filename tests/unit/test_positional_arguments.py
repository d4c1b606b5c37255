"""A call with many positional arguments hides which value is which: beyond eight, arguments are given by name."""

import ast
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src" / "duetime"
MOST = 8


def long_calls(source: str) -> list[tuple[int, str, int]]:
    """The line, the function and the number of positional arguments of each call that has too many."""
    return [
        (node.lineno, ast.unparse(node.func), len(node.args))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and len(node.args) > MOST
    ]


def test_no_call_has_more_than_eight_positional_arguments() -> None:
    found = {path.relative_to(SOURCES).as_posix(): long_calls(path.read_text()) for path in SOURCES.rglob("*.py")}
    too_long = [
        f"{name}:{line}: {function} has {count} positional arguments"
        for name, calls in sorted(found.items())
        for line, function, count in calls
    ]
    assert not too_long, "give them by name:\n" + "\n".join(too_long)


def test_a_long_call_is_found() -> None:
    assert long_calls("store.execute(1, 2, 3, 4, 5, 6, 7, 8, 9)") == [(1, "store.execute", 9)]
    assert not long_calls("store.execute(1, 2, 3, 4, 5, 6, 7, *rest, last=9)")
