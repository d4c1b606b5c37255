"""Slots: how many attempts may be under way in each place."""

from collections.abc import Callable, Mapping

from duetime.worker.task import Place


class Slots:
    def __init__(self, sizes: Mapping[Place, int], freed: Callable[[], None]) -> None:
        self.sizes = dict(sizes)
        self.free = dict(sizes)
        self._freed = freed

    @property
    def total(self) -> int:
        return sum(self.sizes.values())

    @property
    def in_use(self) -> int:
        return self.total - sum(self.free.values())

    def take(self, place: Place) -> None:
        self.free[place] -= 1

    def give_back(self, place: Place) -> None:
        self.free[place] += 1
        self._freed()

    def worth_claiming(self) -> bool:
        """Whether enough slots are free to make a claim worth its round trip, without waiting for more."""
        return any(4 * free >= self.sizes[place] > 0 for place, free in self.free.items())
