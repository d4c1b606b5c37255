"""A session: one lease of this worker. When the lease is lost, a new session begins under a new id."""

from collections.abc import Iterable
from threading import Lock
from uuid import UUID

from duetime.clock import monotonic
from duetime.ids import new_id


class Session:
    """The open claims, and how many runs of each are still in progress.

    The heartbeat reads the open claims from its own thread. They are a dict, whose keys are copied atomically. It also
    begins claims there, for runs that land.
    """

    def __init__(self) -> None:
        self.id: UUID = new_id()
        """Proposed here; a server that registers the worker may assign another."""
        self.over = False
        self._left: dict[int, int] = {}
        self._answered_at: dict[int, float] = {}
        self._unanswered: dict[int, None] = {}
        self._last_claim_no = 0
        self._numbering = Lock()
        self.claimed_at = 0.0
        """When the last claim was answered, on the monotonic clock."""

    def begin_claim(self) -> int:
        """A number for a new claim. The claim is open from now on, whether or not an answer arrives."""
        with self._numbering:
            self._last_claim_no += 1
            number = self._last_claim_no
            self._unanswered[number] = None
            self._left[number] = 0
        return number

    def claimed(self, claim_no: int, runs: int) -> None:
        self.claimed_at = monotonic()
        self._unanswered.pop(claim_no, None)
        if runs:
            self._left[claim_no] = runs
            self._answered_at[claim_no] = self.claimed_at
        else:
            self._left.pop(claim_no, None)

    def landed(self, claim_no: int, runs: int) -> None:
        """Record that a claim for carried runs was answered, and how many of them have landed. `closed` ends the
        claim."""
        self._unanswered.pop(claim_no, None)
        if not runs:
            self._left.pop(claim_no, None)

    def ended(self, claim_no: int) -> bool:
        """One run of the claim has ended here; true when it was the last. The claim stays open until the store
        knows."""
        self._left[claim_no] -= 1
        return self._left[claim_no] <= 0

    def closed(self, claim_nos: Iterable[int]) -> None:
        """The store knows that these claims hold no runs any more."""
        for claim_no in claim_nos:
            self._left.pop(claim_no, None)
            self._answered_at.pop(claim_no, None)

    def held_since(self, before: float) -> list[int]:
        """The claims that were answered by that moment and still have runs in progress."""
        return [claim_no for claim_no, at in self._answered_at.items() if at <= before and self._left.get(claim_no)]

    @property
    def answered(self) -> int:
        """The number up to which all claims were answered."""
        with self._numbering:
            return min(list(self._unanswered), default=self._last_claim_no + 1) - 1

    def open_claims(self) -> list[int]:
        return list(self._left)
