"""What real processes are told through their environment."""

LOGS = "DUETIME_TEST_CHAOS_LOGS"
"""The folder for their logs."""
LIES = "DUETIME_TEST_CHAOS_LIES"
"""The share of successes that they see as errors."""
