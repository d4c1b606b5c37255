"""duetime attacked on purpose: a workload, faults, and a checker that only reads what they wrote down.

`python -m chaos run` breaks real processes, `python -m chaos simulate` a simulated cluster, thousands of times.
"""
