"""The spread of the load over the last day, and the loads of all nodes at earlier times. Memory is bounded."""

from array import array
from collections import deque
from collections.abc import Collection, Iterable
from operator import attrgetter

from equipoise.cli.cluster_now.spread import spread_of
from equipoise.cli.report.figures import without_overlap
from equipoise.cli.views.rows import Frame, NodeRow, SpreadPoint
from equipoise.contracts.messages.advice import ClusterReview
from equipoise.contracts.messages.values.resources import Resources

POINT_SECONDS, MAX_POINTS = 60.0, 24 * 60
"""The spread is recorded as one point per minute, for a day."""

FRAME_SECONDS, MAX_FRAMES = 300.0, 72
"""The loads of all nodes are recorded as one frame per five minutes, for six hours, to compare them with the present.
"""

MAX_REVIEW_AGE = 86_400.0
"""Seconds after which a review is dropped. Hourly reviews of scorers show the spread before the view was opened."""

_UNKNOWN = 0xFFFF
_PERMILLE = 1_000


class LoadHistory:
    """Points of the spread, frames, and reviews of scorers for the hours before the first point."""

    def __init__(self) -> None:
        self._reviews: dict[float, ClusterReview] = {}
        """The reviews by the time at which they begin."""

        self._points: deque[SpreadPoint] = deque(maxlen=MAX_POINTS)
        self._new_points: list[SpreadPoint] = []
        self._frames: deque[tuple[float, tuple[str, ...], array[int]]] = deque(maxlen=MAX_FRAMES)

    def add_review(self, review: ClusterReview) -> None:
        self._reviews[review.since] = review
        newest = max(each.until for each in self._reviews.values())
        self._reviews = {key: each for key, each in self._reviews.items() if newest - each.until <= MAX_REVIEW_AGE}

    def record(self, now: float, rows: Collection[NodeRow]) -> None:
        """Add a point and a frame if they are due."""
        if not rows:
            return
        if not self._points or now - self._points[-1].at >= POINT_SECONDS:
            spread, mean = spread_and_mean(rows)
            point = SpreadPoint(round(now, 1), spread.cpu, spread.memory, mean.cpu, mean.memory)
            self._points.append(point)
            self._new_points.append(point)
        if not self._frames or now - self._frames[-1][0] >= FRAME_SECONDS:
            names = tuple(row.node for row in rows)
            if self._frames and self._frames[-1][1] == names:
                names = self._frames[-1][1]  # one tuple for all frames with the same nodes
            loads = array("H", (_permille(load) for row in rows for load in (row.cpu, row.memory)))
            self._frames.append((now, names, loads))

    def take_points(self) -> list[SpreadPoint]:
        """The points that were added since the last call."""
        added, self._new_points = self._new_points, []
        return added

    def points(self) -> list[SpreadPoint]:
        """The points of this view, preceded by the hourly averages of scorers."""
        first = self._points[0].at if self._points else float("inf")
        earlier = [
            SpreadPoint(round((each.since + each.until) / 2, 1), each.spread.cpu, each.spread.memory)
            for each in sorted(without_overlap(self._reviews.values()), key=attrgetter("since"))
            if (each.since + each.until) / 2 < first
        ]
        return [*earlier, *self._points]

    def frame(self, at: float) -> Frame | None:
        """The last frame at or before `at`, otherwise the oldest frame; None without any frame."""
        if not self._frames:
            return None
        at, names, loads = next((each for each in reversed(self._frames) if each[0] <= at), self._frames[0])
        shares = [None if value == _UNKNOWN else value / _PERMILLE for value in loads]
        cpu_and_memory = zip(shares[::2], shares[1::2], strict=True)
        return Frame(at=at, loads=dict(zip(names, cpu_and_memory, strict=True)))

    @property
    def high(self) -> Resources:
        """The high thresholds in the last review."""
        review = max(self._reviews.values(), key=attrgetter("until"), default=None)
        return Resources() if review is None else review.high


def spread_and_mean(rows: Iterable[NodeRow]) -> tuple[Resources, Resources]:
    """Highest minus lowest load, and the mean, of the nodes that count and whose load is known."""
    spread = spread_of([row for row in rows if not row.set_apart])
    return _rounded(spread.spread), _rounded(spread.mean)


def _rounded(load: Resources) -> Resources:
    return Resources(
        cpu=None if load.cpu is None else round(load.cpu, 4),
        memory=None if load.memory is None else round(load.memory, 4),
    )


def _permille(load: float | None) -> int:
    return _UNKNOWN if load is None else min(_UNKNOWN - 1, round(load * _PERMILLE))
