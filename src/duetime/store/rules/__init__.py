"""Decisions that every store makes the same way: pure functions over rows."""
