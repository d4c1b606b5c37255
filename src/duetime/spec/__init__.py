"""The job spec: the options that a caller may give for a job.

`options` declares each option once. `fields` and `bodies` hold the JSON types of the values, `kinds` the validation of
values, `derived` what follows from the declarations (requests, patches, flags, the reference), and `resolved` the one
function that turns options into a job.
"""
