"""Search: a job is found by any part of its name, task, tags, owner or key, and by the beginning of its id, in any
case.

The index holds *terms*: the distinct names, tags, owners and keys of a tenant, by the groups of three characters that
they contain. A job has its labels anyway, so a term leads to its jobs without an entry per job.
"""

from collections.abc import Iterator
from uuid import UUID

from duetime import ids
from duetime.model.lists import JobFilter, JobItem

SHORTEST = 3
"""Shorter texts are in too many terms: they are looked for in the newest jobs."""
MOST_TERMS = 5000
"""A text that more terms contain is so frequent that it is found in the newest jobs."""


def folded(text: str) -> str:
    return text.casefold()


def grams(text: str) -> list[str]:
    """The groups of three characters in a text."""
    plain = folded(text)
    return sorted({plain[start : start + SHORTEST] for start in range(len(plain) - SHORTEST + 1)})


def is_found_by(item: JobItem, text: str) -> bool:
    wanted = folded(text)
    return any(wanted in folded(each) for each in _texts(item))


def has_labels(item: JobItem, filter: JobFilter) -> bool:
    """Whether an item has the labels that a filter names."""
    said = item.options
    pairs = ((filter.owner, said.owner), (filter.name, said.name), (filter.key, said.key))
    return all(wanted is None or wanted == has for wanted, has in pairs) and (
        filter.tag is None or filter.tag in said.tags
    )


def _texts(item: JobItem) -> Iterator[str]:
    said = item.options
    yield item.task
    yield from (each for each in (said.name, said.owner, said.key) if each is not None)
    yield from said.tags
    yield ids.show("job", item.id)


def ids_beginning(text: str) -> tuple[UUID, UUID] | None:
    """The lowest and the highest id of a job that begins with this text, with or without `job_`; None: none can."""
    return ids.beginning("job", text.strip().lower())
