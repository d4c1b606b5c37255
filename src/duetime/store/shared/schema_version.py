"""Which code may run on which schema.

Schemas expand, then contract. Each schema names the oldest code that it supports, so that old code keeps running on the
new schema during a rolling restart. Code never runs on a schema that is older than itself.
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
            f"the schema of {where} is at version {found} and needs code from version {oldest_code} on; this is {code}",
            remedy="install a newer duetime",
        )
