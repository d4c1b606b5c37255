"""The job spec: what a caller may say about a job.

`options` declares each option once. `fields` and `bodies` hold the JSON types of their values, `kinds` how values are
checked, `derived` what follows from the declarations (requests, patches, flags, the reference), and `resolved` the one
function that turns options into a job.
"""
