"""Targets: the HTTP calls, gRPC calls and commands that duetime's own workers execute, and the rules for what may be
called."""
