"""The times of the newest samples of nodes: how many are fresh is found without reading all of them."""

from bisect import bisect_left, insort

from equipoise.contracts.load.correction import is_fresh


class SampleTimes:
    def __init__(self) -> None:
        self._by_node: dict[str, float] = {}
        self._sorted: list[float] = []

    def put(self, node: str, sampled_at: float | None) -> None:
        """Replaces the time of the node. None: it has no sample."""
        if self._by_node.get(node) == sampled_at:
            return
        earlier = self._by_node.pop(node, None)
        if earlier is not None:
            del self._sorted[bisect_left(self._sorted, earlier)]
        if sampled_at is not None:
            self._by_node[node] = sampled_at
            insort(self._sorted, sampled_at)

    def fresh(self, now: float, max_age: float) -> int:
        """The number of nodes whose sample is fresh."""
        times = self._sorted
        present = bisect_left(times, now)  # earlier samples may be too old, later ones too far in the future
        first = bisect_left(times, True, hi=present, key=lambda at: is_fresh(at, now, max_age))
        last = bisect_left(times, True, lo=present, key=lambda at: not is_fresh(at, now, max_age))
        return last - first
