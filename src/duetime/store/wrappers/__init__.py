"""Stores around a store: one encrypts content, one observes calls."""
