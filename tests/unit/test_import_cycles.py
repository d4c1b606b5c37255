"""No module imports, directly or through others, a module that imports it. Imports for type checkers count, too. The
top of the package holds only what all packages share."""

from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

import duetime

TOP = {"__init__", "clock", "duration", "errors", "ids", "pytest_plugin", "testing", "version"}


def test_there_are_no_import_cycles() -> None:
    graph = grimp.build_graph("duetime", cache_dir=None)
    imports = {module: list(graph.find_modules_directly_imported_by(module)) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        raise AssertionError("import cycle: " + " <- ".join(error.args[1])) from None


def test_the_top_of_the_package_holds_what_all_packages_share() -> None:
    assert {path.stem for path in Path(duetime.__file__).parent.glob("*.py")} == TOP
