"""Claims that touch no index: they need room on the page of the run. Without it each claim writes every index again."""

from functools import partial

from bench.tried.ways import Ways, drained

WAYS: Ways = {
    "room for a new version on each page": drained,
    "pages filled up": partial(drained, before="alter table duetime.runs set (fillfactor = 100)"),
}
