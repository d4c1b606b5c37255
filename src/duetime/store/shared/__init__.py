"""Code that both stores share: roles, decoded rows, named statements, the version of the schema."""
