"""The schemas behind the dashboard's forms: a JavaScript module, generated from the types of the API's requests.

A form shows, explains, checks and sends every field of its request. It declares none itself.
"""

from typing import Any

import msgspec

from duetime.wire.admin import KeyRequest, LimitsBody, TenantDefaults, TenantRequest
from duetime.wire.calendars import CalendarRequest
from duetime.wire.checkins import CheckInRequest
from duetime.wire.issuers import IssuerRequest
from duetime.wire.notifications import AlertRequest, SubscriptionRequest
from duetime.wire.sources import SourceRequest
from duetime.wire.targets import SecretRequest

MODULE = "core/request_schemas.js"

_REQUESTS: tuple[Any, ...] = (
    AlertRequest,
    CalendarRequest,
    CheckInRequest,
    IssuerRequest,
    KeyRequest,
    LimitsBody,
    SecretRequest,
    SourceRequest,
    SubscriptionRequest,
    TenantDefaults,
    TenantRequest,
)


def requests_module() -> bytes:
    _, schemas = msgspec.json.schema_components(_REQUESTS)
    return b"export const $defs = " + msgspec.json.encode(schemas) + b";\n"
