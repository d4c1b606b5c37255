"""What was sealed opens as it was, or says that it cannot be opened."""

import pytest

from duetime.errors import SealBroken
from duetime.sealing import Sealer, is_sealed

SEALER = Sealer([("first", bytes(32))])


def test_whatever_is_left_of_a_seal_is_refused_in_good_order() -> None:
    seal = SEALER.seal(b"{}", belongs_to="somebody")
    assert SEALER.open(seal, belongs_to="somebody") == b"{}"
    for length in range(len(seal)):
        if is_sealed(seal[:length]):
            with pytest.raises(SealBroken):
                SEALER.open(seal[:length], belongs_to="somebody")
