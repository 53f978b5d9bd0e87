"""A sequence and a mapping whose values are computed on first use."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

K = TypeVar("K")
T = TypeVar("T")


class LazySequence(Sequence[T]):
    """The pods of a node: strategies read those of few nodes, and checking every pod of a cluster is expensive."""

    def __init__(self, make: Callable[[], Sequence[T]]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> Sequence[T]:
        return self._make()

    def __len__(self) -> int:
        return len(self._made)

    def __getitem__(self, index: Any) -> Any:
        return self._made[index]


class LazyMapping(Mapping[K, T]):
    """The keys are known; each value is computed once. A decision reads one or two of many windows."""

    def __init__(self, keys: Iterable[K], make: Callable[[K], T]) -> None:
        self._keys = dict.fromkeys(keys)
        self._make = make
        self._made: dict[K, T] = {}

    def __getitem__(self, key: K) -> T:
        if key not in self._made:
            if key not in self._keys:
                raise KeyError(key)
            self._made[key] = self._make(key)
        return self._made[key]

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[K]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)
