"""What both stores use: decoded rows, named statements, the version of the schema."""
