"""The HTTP API.

endpoint, table        every endpoint is one entry: method, path, required permission, request and response types
call                   one request: its caller, path, query and body
application            the table as an ASGI application; every request takes the same steps
bodies, decoding       from bytes to checked values; errors name the field
authentication         API keys, browser sessions, roles and tenants
problems               errors as RFC 9457 problems; the only place that maps errors to status codes
usage_limits           rate limits of tenants and keys
page_cursors           signed cursors of lists
routes/                the handlers; the types of their requests and responses are in `duetime.wire`
openapi                the table as an OpenAPI 3.1 document
http_server            the server inside a node
"""
