"""Which code may run on which schema.

Schemas expand, then contract. Each schema says the oldest code that it bears, so that during a rolling restart old code
goes on running on the new schema. Code never runs on a schema older than itself.
"""

from duetime.errors import SchemaMismatch


def check_versions(*, found: int, oldest_code: int, code: int, where: str) -> None:
    if found < code:
        raise SchemaMismatch(
            f"the schema of {where} is at version {found}, this duetime needs {code}",
            remedy="run: duetime migrate",
        )
    if oldest_code > code:
        raise SchemaMismatch(
            f"the schema of {where} is at version {found} and bears code from version {oldest_code} on; this is {code}",
            remedy="install a newer duetime",
        )
