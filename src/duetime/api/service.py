"""What the handlers of a server share: the store, and everything that stands between it and the callers."""

from duetime.api.gate import Gate
from duetime.api.metrics import Metrics
from duetime.settings import Settings
from duetime.store.protocol import Store


class Service:
    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        self.gate = Gate(store)
        self.metrics = Metrics()
