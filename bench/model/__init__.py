"""A model of duetime's cost that carries measurements past the machine they were taken on.

`simulation` is a discrete-event simulation of worker processes, database sessions, cores and the log; `fitting` feeds
it with what one process was measured to cost; `predicting` compares it with measurements it has not seen, and asks it
what 50,000 runs a second take.
"""
