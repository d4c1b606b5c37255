"""A cluster in one thread: three nodes and a client on one SQLite store, virtual time, and chance from one seed.

What runs is the product: its engine loops, workers and store. What is simulated is what lies around it: time, the order
in which nodes take their turns, the network to the database, and processes that freeze or die. The same seed gives the
same history, line by line.
"""
