"""Slots: how many attempts may be in progress in each place, and how many may wait there."""

from collections.abc import Callable, Mapping

from duetime.worker.task import Place


class Slots:
    def __init__(self, sizes: Mapping[Place, int], freed: Callable[[], None]) -> None:
        self.sizes = [sizes.get(place, 0) for place in Place]
        self.free = list(self.sizes)
        """How many more runs each place can take. Negative after `claim_ahead` allowed fewer than the place holds
        already."""
        self._ahead = [0] * len(self.sizes)
        self._freed = freed
        self.wanted = False
        """Whether a claim waits for a slot."""

    @property
    def total(self) -> int:
        return sum(self.sizes)

    @property
    def used(self) -> list[int]:
        return [min(size, held) for size, held in zip(self.sizes, self._held(), strict=True)]

    @property
    def idle(self) -> bool:
        return not any(self._held())

    def by_place(self, counts: list[int]) -> dict[tuple[str, ...], float]:
        return {(place.name.lower(),): float(count) for place, count in zip(Place, counts, strict=True)}

    def give_back(self, place: int) -> None:
        self.free[place] += 1
        if self.wanted:
            self._freed()

    def claim_ahead(self, place: int, count: int) -> None:
        """Allow `count` more runs than there are slots."""
        if more := count - self._ahead[place]:
            self._ahead[place] = count
            self.free[place] += more
            if more > 0 and self.wanted:
                self._freed()

    def worth_claiming(self, place: int | None = None) -> bool:
        """Whether enough slots are free, in one place or in any, to make a claim worth its round trip."""
        places = range(len(self.sizes)) if place is None else (place,)
        return any(4 * self.free[each] >= self.sizes[each] + self._ahead[each] > 0 for each in places)

    def _held(self) -> list[int]:
        return [size + ahead - free for size, ahead, free in zip(self.sizes, self._ahead, self.free, strict=True)]
