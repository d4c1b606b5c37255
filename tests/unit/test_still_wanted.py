"""What is looked up for a page by labels: nothing that cannot come onto it any more."""

from uuid import UUID

from duetime.store.rules.list_pages import Source, still_wanted

IDS = [UUID(int=number) for number in range(10, 0, -1)]


def test_what_was_found_and_what_stands_below_a_full_page_is_not_looked_up() -> None:
    found = [(UUID(int=number), object()) for number in (9, 7, 6)]
    assert still_wanted(IDS, [Source(found)], limit=2) == [UUID(int=10), UUID(int=8)], "below 6 there is no room"
    assert still_wanted(IDS, [Source(found)], limit=3) == [UUID(int=number) for number in (10, 8, 5, 4, 3, 2, 1)]
    assert still_wanted(IDS, [Source((), UUID(int=5)), Source(found)], limit=50) == [
        UUID(int=number) for number in (10, 8, 5)
    ], "the source was not read below its horizon"
