"""What was tried on the hot path, so that it can be tried again: `python -m bench.tried [name …]`.

Each of them compares ways to do the same, in turns on the same machine, and tells medians as a share of the first way,
which is how duetime does it. What came of them stands in docs/decisions/0018-where-the-time-goes.md.
"""
