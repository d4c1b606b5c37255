"""How middleware reaches the processes of tasks: by its name, or pickled."""

import pickle
from collections.abc import Iterator

from duetime import BaseContext
from duetime.worker.middleware import carried


class Base:
    @classmethod
    def around(cls, context: BaseContext) -> Iterator[None]:
        yield


class Derived(Base):
    pass


def test_a_method_of_a_class_travels_by_its_name() -> None:
    assert carried(Base.around) == (__name__, "Base.around", None)


def test_an_inherited_method_of_a_class_stays_bound_to_the_class_that_was_given() -> None:
    _, _, content = carried(Derived.around)
    assert isinstance(content, bytes)
    assert pickle.loads(content).__self__ is Derived
