"""What each endpoint does, a file for each kind of thing."""
