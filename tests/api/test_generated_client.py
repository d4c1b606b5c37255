"""A client that a well-known generator makes of the OpenAPI document: all operations, and nothing left out."""

import ast
from pathlib import Path

from duetime.api.table import ENDPOINTS
from tests.support.openapi_file import FILE


def test_a_generated_client_covers_every_operation_without_a_warning(tmp_path: Path) -> None:
    # Imported here: it takes longer than the other modules together, and only one test process needs it.
    from openapi_python_client import generate
    from openapi_python_client.config import Config, ConfigFile, MetaType

    folder = tmp_path / "client"
    config = Config.from_sources(
        ConfigFile(post_hooks=[]),  # they only lay the code out
        MetaType.NONE,
        document_source=FILE,
        file_encoding="utf-8",
        overwrite=True,
        output_path=folder,
    )
    assert generate(config=config) == []
    made = {path.stem: path for path in (folder / "api").rglob("*.py")}
    assert made.keys() >= {endpoint.name for endpoint in ENDPOINTS}
    for endpoint in ENDPOINTS:
        module = ast.parse(made[endpoint.name].read_text())
        functions = {each.name for each in module.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert {"sync_detailed", "asyncio_detailed"} <= functions, endpoint.name
        if endpoint.method == "POST":
            assert "idempotency_key" in made[endpoint.name].read_text(), endpoint.name
