"""`wanted - self.cache.keys()` reads all keys of the cache: a submission took longer with each lane that was known.
`{key for key in wanted if key not in self.cache}` reads only what is wanted."""

import ast
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src" / "duetime"


def whole_reads(source: str) -> list[tuple[int, str]]:
    """Where the keys of an object's mapping are subtracted."""
    return [
        (node.lineno, ast.unparse(node.right))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and _is_own_keys(node.right)
    ]


def _is_own_keys(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "keys"
        and isinstance(node.func.value, ast.Attribute)
    )


def test_no_cache_is_read_as_a_whole_to_find_what_it_lacks() -> None:
    sources = {path.relative_to(SOURCES).as_posix(): path.read_text() for path in SOURCES.rglob("*.py")}
    found = {name: whole_reads(source) for name, source in sources.items() if ".keys()" in source}
    named = [f"{name}:{line}: {right}" for name, reads in sorted(found.items()) for line, right in reads]
    assert not named, "ask for each of the wanted keys instead:\n" + "\n".join(named)


def test_such_a_read_is_found() -> None:
    assert whole_reads("missing = wanted - self._ids.keys()") == [(1, "self._ids.keys()")]
    assert not whole_reads("missing = times - timing.keys()")
