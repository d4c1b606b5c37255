"""Benchmarks: duetime's figure beside the limit of this machine, in the same run.

The limit is a pinned loop of the same statements in plain SQL, without a framework around it: what the database itself
can do. Machines are noisy, so rounds of both are interleaved, medians are taken, and the ratio is what counts.
"""
