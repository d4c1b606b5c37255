"""The worker: slots, claims, executors, completion and the lease."""
