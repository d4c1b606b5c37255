"""What a caller gets back for a job."""

from datetime import datetime

import msgspec

from duetime import ids
from duetime.model.job import Submitted


class Receipt(msgspec.Struct, frozen=True):
    """Proof that a job is stored: it survives the death of every process."""

    job_id: str
    next_run: datetime | None
    """When it runs next; unknown until the transaction commits for a job submitted inside one."""
    run_id: str | None = None
    """The run, where it exists already."""
    created: bool = True
    """False when a key led to a job that was there before."""
    note: str | None = None
    """Something worth knowing, such as a time in the past."""

    @classmethod
    def of(cls, answer: Submitted) -> "Receipt":
        run_id = None if answer.run_id is None else ids.show("run", answer.run_id)
        return cls(ids.show("job", answer.job_id), answer.next_run, run_id, answer.created, answer.note)
