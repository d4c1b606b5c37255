"""No module imports, directly or through others, a module that imports it. Imports for type checkers count, too."""

from graphlib import CycleError, TopologicalSorter

import grimp


def test_there_are_no_import_cycles() -> None:
    graph = grimp.build_graph("duetime", cache_dir=None)
    imports = {module: list(graph.find_modules_directly_imported_by(module)) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        raise AssertionError("import cycle: " + " <- ".join(error.args[1])) from None
