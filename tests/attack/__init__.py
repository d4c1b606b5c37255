"""Slow, silent and oversized requests against a real server process, and what other clients notice of them."""
