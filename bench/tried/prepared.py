"""Prepared statements in a drain, and none (as behind a proxy that pools transactions)."""

from functools import partial

from bench.tried.ways import Ways, drained

WAYS: Ways = {"prepared": drained, "not prepared": partial(drained, prepared=False)}
