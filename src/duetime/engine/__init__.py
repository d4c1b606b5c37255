"""What moves jobs: intake, scanner, reaper, pruner. One arrow or rule each, all safe on any number of nodes."""
