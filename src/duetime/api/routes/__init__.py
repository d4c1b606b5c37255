"""The handlers of the endpoints, one module for each kind of object."""
