"""duetime inside the user's own process: an app that runs on the caller's event loop or on its own thread."""
