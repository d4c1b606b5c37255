"""After each run of another job: a chain. It has no moments of its own; the end of a run is its occurrence."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from duetime.errors import not_a_choice
from duetime.ids import parse, show
from duetime.model.schedule.recurrence import Recurrence

On = Literal["success", "failure", "any"]
ONS: tuple[On, ...] = ("success", "failure", "any")


class After(Recurrence, frozen=True, tag="after", omit_defaults=True):
    """Runs whenever a run of `job` has ended as `on` says."""

    job: UUID
    on: On = "success"
    zone: str = "UTC"

    def next_after(self, moment: datetime) -> datetime | None:
        return None

    def latest_until(self, moment: datetime) -> datetime | None:
        return None

    def count_between(self, after: datetime, until: datetime, most: int) -> int:
        return 0

    def asked(self, fire: datetime) -> datetime | None:
        return None

    @property
    def goes_by_zone(self) -> bool:
        return False

    def __str__(self) -> str:
        return f"after {show('job', self.job)} on {self.on}"


def make_after(job: UUID, on: str) -> After:
    if on not in ONS:
        raise not_a_choice(on, ONS, "after.on")
    return After(job=job, on=on)


def parse_after(text: str) -> After | None:
    """Parses what `exact_form` writes: "after job_… on success"; None for any other text."""
    words = text.split(" ")
    if len(words) != 4 or words[0] != "after" or words[2] != "on" or not words[1].startswith("job_"):
        return None
    return make_after(parse("job", words[1]), words[3])
