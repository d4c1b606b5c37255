"""One contract, every store: each test here runs on SQLite and on every PostgreSQL there is."""
