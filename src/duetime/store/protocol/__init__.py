"""What a store guarantees, role by role."""
