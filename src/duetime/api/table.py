"""Every endpoint there is. Those that are asked most come first: routes are tried in this order."""

from duetime.api.endpoint import Endpoint
from duetime.api.routes import (
    batches,
    breakers,
    calendars,
    dead_letters,
    editing,
    events,
    graphs,
    health,
    jobs,
    keys,
    notifications,
    payloads,
    queues,
    reference,
    runs,
    schedules,
    tenants,
    workers,
)

ENDPOINTS: tuple[Endpoint, ...] = (
    *batches.routes,
    *jobs.routes,
    *editing.routes,
    *workers.routes,
    *runs.routes,
    *graphs.routes,
    *dead_letters.routes,
    *schedules.routes,
    *calendars.routes,
    *notifications.routes,
    *queues.routes,
    *breakers.routes,
    *payloads.routes,
    *events.routes,
    *tenants.routes,
    *keys.routes,
    *health.routes,
    *reference.routes,
)
