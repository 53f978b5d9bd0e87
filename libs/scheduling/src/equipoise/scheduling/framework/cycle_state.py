"""The data that plugins store during one attempt to schedule a pod."""

from typing import Any, Protocol, TypeVar


class StateData(Protocol):
    """A value of a plugin. Preemption changes clones of it."""

    def clone(self) -> "StateData":
        """A copy that add_pod and remove_pod may change. Values that never change may return themselves."""
        ...


T = TypeVar("T")


class CycleState:
    """The values of plugins by key. A plugin uses its name as the key."""

    def __init__(self, values: dict[str, Any] | None = None) -> None:
        self._values: dict[str, Any] = {} if values is None else values
        self.skipped_filters: frozenset[str] = frozenset()
        """Plugins whose Filter, add_pod and remove_pod are not called for this pod."""

        self.skipped_scores: frozenset[str] = frozenset()
        self.restricted_by: tuple[str, ...] = ()
        """Plugins whose PreFilter restricts the pod to nodes with certain names."""

    def write(self, key: str, value: StateData) -> None:
        self._values[key] = value

    def read(self, key: str, kind: type[T]) -> T:
        """The value with this key. Raises KeyError if the plugin has not written it."""
        value: T = self._values[key]
        return value

    def clone(self) -> "CycleState":
        """A copy. Changes of its values do not affect the original."""
        copy = CycleState({key: value.clone() for key, value in self._values.items()})
        copy.skipped_filters, copy.skipped_scores = self.skipped_filters, self.skipped_scores
        return copy
