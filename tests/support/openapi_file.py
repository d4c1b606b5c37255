"""openapi.json, made from the table of endpoints: `make docs` writes it, a test keeps it in step."""

from pathlib import Path

import duetime.api.table  # noqa: F401  # what the document describes
from duetime.api.routes.reference import document

FILE = Path(__file__).parents[2] / "openapi.json"

if __name__ == "__main__":
    FILE.write_bytes(document())
