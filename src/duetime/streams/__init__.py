"""Stream queues: runs that go through a broker instead of the store's lanes (docs/streams.md)."""
