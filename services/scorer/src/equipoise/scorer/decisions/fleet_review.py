"""How the fleet fared in an hour: which nodes were over their marks and for how long, and how level it was."""

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from equipoise.contracts.configuration.settings import ResourceThresholds
from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.messages.advice import ClusterReview
from equipoise.contracts.messages.resources import Resources
from equipoise.scorer.state.arrays import Array, resources

HOUR = 3_600.0

TOLD_EVERY = 300.0
"""Seconds after which a growing part is said again: so much is lost at most when a scorer dies."""

LONGEST_STEP = 60.0
"""Seconds between two looks beyond which nobody knows what was in between."""


class Reviewer:
    """Adds up looks at the fleet. Every part lies within one full hour. Times are handed in."""

    def __init__(self, high: ResourceThresholds) -> None:
        self._high = np.array(
            [math.inf if (mark := getattr(high, resource)) is None else mark / 100.0 for resource in RESOURCES]
        )
        self._part: _Part | None = None
        self._skipped = 0

    def skip(self) -> None:
        """A placement gets no advice: they come too fast."""
        self._skipped += 1

    def look(self, names: Sequence[str], load: Array, now: float, *, known: bool) -> list[ClusterReview]:
        """Take in the load (nodes × resources, 0..1; NaN unknown) since the last look; what is to be told, if anything.

        `known`: whether enough is known of the fleet to say anything; what is not seen is neither over nor under.
        """
        part = self._part
        if part is None or not 0.0 <= now - part.until <= LONGEST_STEP:
            told = [] if part is None else self._told(part)
            self._part = _Part(now)
            return told
        told = []
        while (end := (math.floor(part.since / HOUR) + 1) * HOUR) <= now:
            part.add(names, load, self._high, end, known=known)
            told += self._told(part)
            part = self._part = _Part(end)
            self._skipped = 0
        part.add(names, load, self._high, now, known=known)
        if now - part.told_at >= TOLD_EVERY:
            part.told_at = now
            told += self._told(part)
        return told

    def _told(self, part: "_Part") -> list[ClusterReview]:
        """What has been seen so far; nothing when that is nothing."""
        return [part.review(self._high, self._skipped)] if part.seen or self._skipped else []


class _Part:
    """Sums over one part of an hour, weighted with seconds."""

    def __init__(self, since: float) -> None:
        self.since = self.until = self.told_at = since
        self.seen = 0.0
        self._nodes = 0.0
        self._over: defaultdict[str, float] = defaultdict(float)
        # The second row is the seconds in which the resource was known of any node.
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
