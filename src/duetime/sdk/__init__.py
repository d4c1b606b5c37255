"""What an app's author imports: the app, its tasks, their receipts. `duetime` itself exports the public names."""
