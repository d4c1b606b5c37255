"""What real processes are told through their environment."""

LOGS = "DUETIME_TEST_CHAOS_LOGS"
"""The folder for their logs."""
LIES = "DUETIME_TEST_CHAOS_LIES"
"""A file that says which share of successes they see as errors."""
MUTANT = "DUETIME_TEST_CHAOS_MUTANT"
"""The promise that they shall break."""
ENCRYPTION = {"DUETIME_ENCRYPTION_KEYS": "first:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}
"""A server does not start without a key."""
