"""A second opinion on schedules: brute force over real time, written from docs/schedules.md.

It shares no code with the product and does not use cronsim. To look at one case again:

    python -m tests.oracle "30 2 * * *" Europe/Berlin 2026-03-28T00:00:00Z
"""
