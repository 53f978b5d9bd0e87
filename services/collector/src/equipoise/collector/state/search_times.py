"""The times at which the label that names the nodes of series is searched for."""

from collections.abc import Collection, Iterable

SEARCHES_WHILE_MISSING = 5.0
"""The number of searches in a shortest window while a node has no series."""


class SearchTimes:
    """The time of the last search, and the nodes that had no series since."""

    def __init__(self, *, length: float, period: float) -> None:
        """`length`: the shortest window; `period`: between two searches. Both in seconds."""
        self._length = length
        self._period = period
        self._searched_at: float | None = None
        self._known = frozenset[str]()
        self._missing = frozenset[str]()

    def is_due(self, at: float, nodes: Collection[str], named: Collection[str]) -> bool:
        """Whether a search is due. `nodes`: those of this replica; `named`: those whose series the last search
        found."""
        if self._searched_at is None or not 0.0 <= at - self._searched_at < self._period:
            return True
        missing = [node for node in nodes if node not in named]
        if any(node not in self._known for node in missing):
            return True  # it is new
        waits = at - self._searched_at < self._length / SEARCHES_WHILE_MISSING
        return not waits and bool(missing or self._missing & set(nodes))

    def on_search(self, at: float, nodes: Iterable[str]) -> None:
        """Records a search."""
        self._searched_at, self._known, self._missing = at, frozenset(nodes), frozenset()

    def on_missing(self, nodes: Iterable[str]) -> None:
        """Records nodes of which a round found no series, or none of pods: their labels may have changed."""
        self._missing |= frozenset(nodes)
