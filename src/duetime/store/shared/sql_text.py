"""The text of a `.sql` file, as the database gets it.

A file may define text that several of its statements or functions share. The database gets the whole text in each
place: a function that another function calls would cost the hot path more than the rest of a small claim.

    -- template within(table, kind)
    create trigger {table}_within_{kind} …
    -- end

    {within: payloads | payload_bytes}

Names of states are replaced by their numbers (`state_names.py`).
"""

import re

from duetime.store.shared.state_names import with_numbers

_TEMPLATE = re.compile(r"^-- template (\w+)(?:\(([\w, ]+)\))?\n(.*?)\n-- end\n", re.DOTALL | re.MULTILINE)
_USE = re.compile(r"\{(\w+)(?::\s([^{}]*))?\}")


def sql_text(text: str, where: str) -> str:
    """Raises `ValueError` for a state or a template that is not declared, and for a template that is used with other
    parameters than it has."""
    templates = {match[1]: (_names(match[2]), match[3]) for match in _TEMPLATE.finditer(text)}

    def written(match: re.Match[str]) -> str:
        if match[1] not in templates and match[2] is None:
            return match[0]
        if match[1] not in templates:
            raise ValueError(f"{where}: there is no template {match[1]}")
        names, body = templates[match[1]]
        given = [] if match[2] is None else [part.strip() for part in match[2].split(" | ")]
        if len(given) != len(names):
            raise ValueError(f"{where}: the template {match[1]} has {len(names)} parameters, not {len(given)}")
        values = dict(zip(names, given, strict=True))
        return _USE.sub(lambda use: values.get(use[1], use[0]), body)

    return with_numbers(_USE.sub(written, _TEMPLATE.sub("", text)), where)


def _names(listed: str | None) -> list[str]:
    return [] if listed is None else listed.split(", ")
