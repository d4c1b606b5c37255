"""The HTTP API's requests and answers, shared by server and client. Fields are only ever added.

fields                     types and bodies that many requests share
jobs, runs, calendars      the objects of a tenant
admin, service             tenants, keys, the audit log; queues, workers, payloads and the server itself
workers                    the protocol of remote workers
"""
