"""How far a page looks among jobs that are over."""

from uuid import UUID

from duetime.model.lists import JobFilter
from duetime.store.rules.list_pages import EndedWalk
from duetime.store.shared.service_rows import LAST_ID

ODD = [UUID(int=number) for number in range(99, 0, -2)]
EVEN = [UUID(int=number) for number in range(100, 0, -2)]


def ended(job_id: UUID, *, elsewhere: bool = False) -> dict[str, object]:
    return {"job_id": job_id, "elsewhere": elsewhere, "end_state": 4, "task": "t", "queue": "q", "due_at": None}


def test_what_other_homes_put_on_the_page_is_not_looked_for_here() -> None:
    walk = EndedWalk(JobFilter(), LAST_ID, limit=10, beside=EVEN)
    wanted = walk.saw(walk.rows_at_once, ODD[-1], ODD[0], ODD)
    assert wanted == ODD[:6]  # with the five even ones before the last of them: one more than the page has room for
    walk.take([ended(job_id) for job_id in wanted])
    assert walk.done
    assert walk.horizon == ODD[5]


def test_a_page_that_is_not_filled_yet_goes_on_where_it_stopped() -> None:
    walk = EndedWalk(JobFilter(), LAST_ID, limit=10, beside=EVEN[:2])
    wanted = walk.saw(walk.rows_at_once, ODD[-1], ODD[0], ODD)
    assert wanted == ODD[:9]
    walk.take([ended(job_id, elsewhere=True) for job_id in wanted])
    assert not walk.done
    assert walk.place == ODD[8]
    wanted = walk.saw(len(ODD) - 9, ODD[-1], ODD[9], ODD[9:])
    assert wanted == ODD[9:]
    walk.take([ended(job_id) for job_id in wanted])
    assert walk.done
    assert walk.horizon is None
