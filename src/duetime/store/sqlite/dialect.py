"""Translation of shared statements to SQLite.

`shared/sql` is written in PostgreSQL's dialect with named parameters. The differences are listed here. A statement that
needs more than these rules has its own version in the `sql` folder of each dialect.
"""

import re

_RULES = tuple(
    (re.compile(pattern, re.DOTALL), replacement)
    for pattern, replacement in (
        # An embedded store takes the time from its clock.
        (r"duetime\.(?:now|clock)\(\)", ":now"),
        # A file has one schema.
        (r"\bduetime\.", ""),
        # Live logs have the tenant of their run.
        (
            r"from live_logs t\b",
            "from (select l.*, r.tenant_id from live_logs l join runs r on r.id = l.run_id) t",
        ),
        # Ids are packed into one value, with a second list of the same length (`values.encoded`).
        (
            r"= any\(:(\w+)::uuid\[\]\)",
            r"in (select substr(:\1, at.key * 16 + 1, 16) from json_each(:\1_places) at)",
        ),
        # Other lists are JSON.
        (r"= any\(:(\w+)::\w+\[\]\)", r"in (select value from json_each(:\1))"),
        (r"= any\(((?:\w+\.)?tenant_ids)\)", r"in (select value from json_each(\1))"),
        # In PostgreSQL this makes the planner look up each row, whatever the statistics say. Its `limit` must not
        # change the answer.
        (
            r"join lateral \(\s*select \* from (\w+) (\w+)\s+where ((?:(?!order by|lateral).)*?)"
            r"\s+(?:limit [\w:]+|offset 0)\s*\) \2(?: on true)?",
            r"join \1 \2 on \3",
        ),
        (r'\s+collate "\w+"', ""),
        # In PostgreSQL this keeps a condition out of the choice of an index; in SQLite a plus does.
        (r"([\w.]+) is not distinct from\b", r"+\1 is"),
        # In PostgreSQL this makes the planner use the index of the left side, whatever the statistics say.
        (r"= any\(array\[([\w.:]+)\]\)", r"= \1"),
        (r"= any\(array\((\s*select .*?)\)\)", r"in (\1)"),
        (r"\bctid\b", "rowid"),
        # Bytes sort as they are; in PostgreSQL this keeps the planner from reading an index of ids for its order.
        (r"uuid_send\(([\w.]+)\)", r"\1"),
        (r"'00000000-0000-0000-0000-000000000000'", "zeroblob(16)"),
        # Moments are microseconds.
        (r"extract\(epoch from ([\w.:]+ - [\w.]+)\)", r"(\1) / 1e6"),
        # The moment of a cursor that is out of view.
        (r"'9999-01-01Z'", "253370764800000000"),
        # A moment before all others.
        (r"'-infinity'", "0"),
        # The same functions by other names. Unlike PostgreSQL's, these return null when one of their values is null.
        (r"\bgreatest\(", "max("),
        (r"\bleast\(", "min("),
        (r"\bstrpos\(", "instr("),
        # SQLite needs no casts.
        (r"::(?:[a-z][a-z0-9]*|\"char\")(?:\[\])?", ""),
        # A file has one writer.
        (r"\s+for (?:no key )?(?:update|share)(?: of \w+)?(?: skip locked)?\b", ""),
    )
)


def translated(text: str) -> str:
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text
