"""The background components of a node: intake, scanner, reaper, pruner. Each implements one transition or rule, and
each is safe to run on any number of nodes."""
