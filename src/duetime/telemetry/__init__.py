"""What can be seen from outside: metrics, traces, and the ids in logs. A leaf: it counts what it is told."""
