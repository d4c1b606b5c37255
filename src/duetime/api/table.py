"""Every endpoint there is. Those that are asked most come first: routes are tried in this order."""

from duetime.api.endpoint import Endpoint
from duetime.api.routes import health, jobs, reference

ENDPOINTS: tuple[Endpoint, ...] = (*jobs.routes, *health.routes, *reference.routes)
