"""The load of the cluster in an hour: which nodes were above a high threshold and for how long, and the spread."""

import math
from collections import defaultdict
from collections.abc import Sequence

from equipoise.contracts.configuration.settings import ResourceThresholds
from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.messages.advice import ClusterReview
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.numeric import Array, np
from equipoise.scorer.decisions.arrays import resources

HOUR = 3_600.0

PUBLISH_INTERVAL = 300.0
"""Seconds between publications of an unfinished period. A scorer that crashes loses at most this much of it."""

MAX_STEP = 60.0
"""The maximum of seconds between two observations. A longer time between them counts as not observed."""


class ClusterReviewer:
    """Sums observations of the cluster. Every period lies within one full hour. Times are arguments."""

    def __init__(self, high: ResourceThresholds) -> None:
        thresholds = [getattr(high, resource) for resource in RESOURCES]
        self._high = np.array([math.inf if percent is None else percent / 100.0 for percent in thresholds])
        self._period: _Period | None = None
        self._skipped = 0

    def skip(self) -> None:
        """Count a placement that gets no advice because placements arrive too fast."""
        self._skipped += 1

    def observe(self, names: Sequence[str], load: Array, now: float, *, known: bool) -> list[ClusterReview]:
        """Add the load since the last call: nodes × resources, 0..1, NaN if unknown. Returns the reviews to publish.

        `known`: whether coverage is sufficient. If not, the time counts as not observed.
        """
        period = self._period
        if period is None or not 0.0 <= now - period.until <= MAX_STEP:
            self._period = _Period(now)
            return [] if period is None else self._reviews(period)
        reviews = []
        while (end := (math.floor(period.since / HOUR) + 1) * HOUR) <= now:
            period.add(names, load, self._high, end, known=known)
            reviews += self._reviews(period)
            period = self._period = _Period(end)
            self._skipped = 0
        period.add(names, load, self._high, now, known=known)
        if now - period.published_at >= PUBLISH_INTERVAL:
            period.published_at = now
            reviews += self._reviews(period)
        return reviews

    def _reviews(self, period: "_Period") -> list[ClusterReview]:
        """The review of a period, if there is anything to publish."""
        return [period.review(self._high, self._skipped)] if period.seen or self._skipped else []


class _Period:
    """Sums over a part of an hour, weighted with seconds."""

    def __init__(self, since: float) -> None:
        self.since = self.until = self.published_at = since
        self.seen = 0.0
        self._nodes = 0.0
        self._over: defaultdict[str, float] = defaultdict(float)
        # The first row has sums, the second the seconds in which the load of any node was known.
        self._spread = np.zeros((2, len(RESOURCES)))
        self._deviation = np.zeros((2, len(RESOURCES)))

    def add(self, names: Sequence[str], load: Array, high: Array, until: float, *, known: bool) -> None:
        seconds = until - self.until
        self.until = until
        if not known:
            return
        self.seen += seconds
        self._nodes += seconds * int(np.count_nonzero(~np.isnan(load).all(axis=1)))
        for index in np.flatnonzero((load > high).any(axis=1)):
            self._over[names[int(index)]] += seconds
        for column in range(len(RESOURCES)):
            values = load[:, column][~np.isnan(load[:, column])]
            if len(values):
                self._spread[:, column] += (seconds * (values.max() - values.min()), seconds)
                self._deviation[:, column] += (seconds * values.std(), seconds)

    def review(self, high: Array, skipped: int) -> ClusterReview:
        return ClusterReview(
            since=self.since,
            until=self.until,
            seen=round(self.seen, 1),
            nodes=round(self._nodes / self.seen, 1) if self.seen else 0.0,
            over={name: round(seconds, 1) for name, seconds in self._over.items()},
            high=resources(high),
            spread=_mean(self._spread),
            deviation=_mean(self._deviation),
            skipped=skipped,
        )


def _mean(weighted: Array) -> Resources:
    total, seconds = weighted
    return resources(np.divide(total, seconds, out=np.full_like(total, np.nan), where=seconds > 0))
