"""Shared statements in SQLite's words.

`shared/sql` is written in PostgreSQL's words with named parameters. What differs in SQLite is listed here; a statement
that needs more than that has a version of its own in the `sql` folder of each dialect.
"""

import re

_RULES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # An embedded store is given its clock.
        (r"duetime\.(?:now|clock)\(\)", ":now"),
        # A file is one schema.
        (r"\bduetime\.", ""),
        # Ids are packed into one value, with a list that is as long (`values.encoded`).
        (
            r"= any\(:(\w+)::uuid\[\]\)",
            r"in (select substr(:\1, at.key * 16 + 1, 16) from json_each(:\1_places) at)",
        ),
        # Other lists are JSON.
        (r"= any\(:(\w+)::\w+\[\]\)", r"in (select value from json_each(:\1))"),
        # In PostgreSQL this makes the planner take the index of what stands before it, whatever it believes of sizes.
        (r"= any\(array\[([\w.:]+)\]\)", r"= \1"),
        # Values have no types to state.
        (r"::(?:[a-z][a-z0-9]*|\"char\")(?:\[\])?", ""),
        # A file has one writer.
        (r"\s+for (?:no key )?(?:update|share)(?: of \w+)?(?: skip locked)?\b", ""),
    )
)


def translated(text: str) -> str:
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text
