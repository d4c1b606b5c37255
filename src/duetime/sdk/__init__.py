"""The SDK: the app, its tasks, their receipts. `duetime` itself exports the public names."""
