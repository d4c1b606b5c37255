"""A node: the process that serves, schedules and works, assembled from its parts."""
