"""How much a test tries: enough for every change, or with `HYPOTHESIS_PROFILE=deep` (`make deep`) much more."""

import os

DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"


def tries(usual: int, deep: int) -> int:
    return deep if DEEP else usual
