"""What both ends of the HTTP API speak: the shapes of requests and answers. Fields are only ever added.

fields                     what a field may hold, and what many requests have
jobs, runs, calendars      what a tenant works with
admin, service             tenants, keys, the audit log; queues, workers, payloads and the server itself
workers                    the protocol of remote workers
"""
