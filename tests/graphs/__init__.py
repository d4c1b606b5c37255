"""Graphs of any shape against a reference that knows nothing of stores.

`python -m tests.graphs` runs the whole comparison (200 graphs of 1,000 nodes on each store); the suite runs a slice.
"""
