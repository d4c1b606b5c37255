"""What was sealed opens as it was, or says that it cannot be opened."""

import pytest

from duetime.crypto.sealer import Sealer, is_sealed, is_sealed_text, key_name_of, prefix_of
from duetime.errors import KeyUnknown, NoEncryptionKey, SealBroken

SEALER = Sealer([("first", bytes(32))])


def test_whatever_is_left_of_a_seal_is_refused_in_good_order() -> None:
    seal = SEALER.seal(b"{}", belongs_to="somebody")
    assert SEALER.open(seal, belongs_to="somebody") == b"{}"
    for length in range(len(seal)):
        if is_sealed(seal[:length]):
            with pytest.raises(SealBroken):
                SEALER.open(seal[:length], belongs_to="somebody")


@pytest.mark.parametrize(
    "text", ["", "short", "Zoë ☃ " * 50, "x" * 20_000, "!sealed1:first:AAAA.", "a\ud800b", "a;b:c."]
)
def test_text_is_sealed_as_text(text: str) -> None:
    sealed = SEALER.seal_text(text, belongs_to="somebody")
    assert is_sealed_text(sealed) and sealed.isascii() and (text in ("", sealed) or text not in sealed)
    assert SEALER.open_text(sealed, belongs_to="somebody") == text
    assert key_name_of(sealed) == b"first" and sealed.startswith(str(prefix_of(sealed)))
    with pytest.raises(SealBroken):
        SEALER.open_text(sealed, belongs_to="somebody else")


def test_the_beginning_of_a_text_that_was_cut_can_be_read() -> None:
    """As databases cut it for lists; with the longest name that a key may have."""
    sealer = Sealer([("n" * 40, bytes(32))])
    sealed = sealer.seal_text("Zoë ☃ " * 1000, belongs_to="somebody")
    cut = sealer.open_text(sealed[:500], belongs_to="somebody")
    assert cut.startswith("Zoë ☃ " * 20) and cut.endswith("…")
    for length in (50, 100, 300):
        with pytest.raises(SealBroken):
            sealer.open_text(sealed[:length], belongs_to="somebody")


def test_a_key_that_is_not_known_is_named() -> None:
    other = Sealer([("second", bytes(32))])
    for open_it in (
        lambda: other.open(SEALER.seal(b"{}", belongs_to="x"), belongs_to="x"),
        lambda: other.open_text(SEALER.seal_text("{}", belongs_to="x"), belongs_to="x"),
    ):
        with pytest.raises(KeyUnknown, match=r"the key 'first'.*DUETIME_ENCRYPTION_KEYS"):
            open_it()
    with pytest.raises(NoEncryptionKey, match="DUETIME_ENCRYPTION_KEYS"):
        Sealer([]).seal(b"", belongs_to="x")


def test_no_two_seals_begin_alike() -> None:
    assert len({prefix_of(SEALER.seal(b"same", belongs_to="x")) for _ in range(100)}) == 100
    assert len({prefix_of(SEALER.seal_text("same", belongs_to="x")) for _ in range(100)}) == 100
