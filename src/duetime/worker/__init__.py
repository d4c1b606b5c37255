"""What runs jobs: slots, claims, executors, completion and the lease."""
