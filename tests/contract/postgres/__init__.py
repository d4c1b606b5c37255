"""The contract as only PostgreSQL can break it: with other connections, other roles and other nodes."""
