"""One operating-system process: its event loops, threads, signals and forks."""
