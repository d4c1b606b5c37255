"""Every endpoint there is. Those that are asked most come first: routes are tried in this order."""

from duetime.api.endpoint import Endpoint
from duetime.api.routes import dead_letters, health, jobs, keys, queues, reference, runs, schedules, tenants

ENDPOINTS: tuple[Endpoint, ...] = (
    *jobs.routes,
    *runs.routes,
    *dead_letters.routes,
    *schedules.routes,
    *queues.routes,
    *tenants.routes,
    *keys.routes,
    *health.routes,
    *reference.routes,
)
