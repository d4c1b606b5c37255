"""The points of its work at which a process can be told to die."""

BEFORE_ANNOUNCING = "die before announcing"
WHILE_ANNOUNCING = "die while announcing"
AFTER_ANNOUNCING = "die after announcing"
BEFORE_ACKNOWLEDGING = "die before acknowledging"
POINTS = (BEFORE_ANNOUNCING, WHILE_ANNOUNCING, AFTER_ANNOUNCING, BEFORE_ACKNOWLEDGING)
