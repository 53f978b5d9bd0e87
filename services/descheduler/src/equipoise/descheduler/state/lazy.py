"""A sequence and a mapping whose values are computed on first use."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

K = TypeVar("K")
T = TypeVar("T")


class LazySequence(Sequence[T]):
    """A sequence such as the pods of a node: strategies read the pods of few nodes, and checking all pods is
    expensive."""

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], Sequence[T]]) -> None:
        self._make = make
        self._made: Sequence[T] | None = None

    def _all(self) -> Sequence[T]:
        if self._made is None:
            self._made = self._make()
        return self._made

    def __len__(self) -> int:
        return len(self._all())

    def __getitem__(self, index: Any) -> Any:
        return self._all()[index]

    def __iter__(self) -> Iterator[T]:
        return iter(self._all())


class LazyMapping(Mapping[K, T]):
    """A mapping with known keys. Each value is computed when it is first read: a decision reads few of many windows."""

    __slots__ = ("_keys", "_made", "_make")

    def __init__(self, keys: Collection[K], make: Callable[[K], T]) -> None:
        """`keys` is not copied, and must not change."""
        self._keys = keys
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
