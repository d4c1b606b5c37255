"""Arguments and results as JSON, by the annotations of a task."""
