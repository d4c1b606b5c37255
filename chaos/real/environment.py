"""What real processes are told through their environment."""

LOGS = "DUETIME_TEST_CHAOS_LOGS"
"""The folder for their logs."""
LIES = "DUETIME_TEST_CHAOS_LIES"
"""A file that says which share of successes they see as errors."""
MUTANT = "DUETIME_TEST_CHAOS_MUTANT"
"""The promise that they shall break."""
