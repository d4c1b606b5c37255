"""The domain model: pure values and rules. Nothing here reads a clock, a file or a socket."""
