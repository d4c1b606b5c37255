"""The HTTP API: how programs in any language reach duetime.

endpoint, table        every endpoint is one entry: method, path, who may, what it takes, what it answers
application            the table made an ASGI application: one road for every request
bodies, decoding       from bytes to checked values; what cannot be meant is refused with the place at fault
access, sessions       who asks: API keys, and browsers that logged in
problems               what went wrong, as RFC 9457 says it; the only place that maps errors to status codes
limits, cursors        how much, and from where on
routes/                what each endpoint does; the shapes it speaks are in `duetime.wire`
openapi                the same table as an OpenAPI 3.1 document
serving                the server inside a node
"""
