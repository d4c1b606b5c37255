"""Targets: HTTP calls, gRPC calls and commands that duetime's own workers make, and who may be called."""
