"""The peers: what people use today, measured beside duetime on the same machine in the same run.

Each peer has an environment of its own with pinned versions (`requirements/`), made when it is first asked for, and a
driver (`drivers/`) that knows its best documented settings. A peer that cannot run is named, with the reason.
"""
