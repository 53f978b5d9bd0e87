"""A sequence that is made when somebody looks at it."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeVar

T = TypeVar("T")


class Later(Sequence[T]):
    """Few nodes are ever asked for their pods, and to judge every pod of a fleet takes longer than all the rest."""

    def __init__(self, make: Callable[[], Sequence[T]]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> Sequence[T]:
        return self._make()

    def __len__(self) -> int:
        return len(self._made)

    def __getitem__(self, place: Any) -> Any:
        return self._made[place]
