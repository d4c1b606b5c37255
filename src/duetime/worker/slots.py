"""Slots: how many attempts may be under way in each place."""

from collections.abc import Callable, Mapping

from duetime.worker.task import Place


class Slots:
    def __init__(self, sizes: Mapping[Place, int], freed: Callable[[], None]) -> None:
        self.sizes = [sizes.get(place, 0) for place in Place]
        self.free = list(self.sizes)
        self._freed = freed

    @property
    def total(self) -> int:
        return sum(self.sizes)

    def take(self, place: int) -> None:
        self.free[place] -= 1

    def give_back(self, place: int) -> None:
        self.free[place] += 1
        self._freed()

    def worth_claiming(self) -> bool:
        """Whether enough slots are free to make a claim worth its round trip, without waiting for more."""
        return any(4 * free >= size > 0 for free, size in zip(self.free, self.sizes, strict=True))
