"""The load of the cluster in an hour: which nodes were above a high threshold and for how long, and the spread."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, get_args

from equipoise.contracts.configuration.settings import PressureThresholds, ResourceThresholds
from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.load.pressure import is_hot
from equipoise.contracts.messages.advice import ClusterReview
from equipoise.contracts.messages.values.pressure import NodePressure
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.numeric import Array, np
from equipoise.scorer.decisions.arrays import resources

HOUR = 3_600.0

PUBLISH_INTERVAL = 300.0
"""Seconds between publications of an unfinished period. A scorer that crashes loses at most this much of it."""

MAX_STEP = 60.0
"""The maximum of seconds between two observations. A longer time between them counts as not observed."""


_State = Literal["over", "busy", "waiting"]
"""A node above a threshold of load on which pods may wait, one on which none waits, and one below them on which pods
wait for others."""

_STATES: tuple[_State, ...] = get_args(_State)


class ClusterReviewer:
    """Sums observations of the cluster. Every period lies within one full hour. Times are arguments."""

    def __init__(self, high: ResourceThresholds, pressure: PressureThresholds | None = None) -> None:
        self._pressure = PressureThresholds() if pressure is None else pressure
        thresholds = [getattr(high, resource) for resource in RESOURCES]
        self._high = np.array([math.inf if percent is None else percent / 100.0 for percent in thresholds])
        self._period: _Period | None = None
        self._skipped = 0

    def skip(self) -> None:
        """Count a placement that gets no advice because placements arrive too fast."""
        self._skipped += 1

    def observe(
        self,
        names: Sequence[str],
        load: Array,
        now: float,
        *,
        known: bool,
        pressures: Mapping[str, NodePressure | None] = MappingProxyType({}),
    ) -> list[ClusterReview]:
        """Adds the load since the last call: nodes × resources, 0..1, NaN if unknown. Returns the reviews to publish.

        `known`: whether coverage is sufficient. If not, the time counts as not observed. `pressures`: the pressure
        of each node, by its name.
        """
        states = self._states(names, load, pressures)
        period = self._period
        if period is None or not 0.0 <= now - period.until <= MAX_STEP:
            self._period = _Period(now)
            return [] if period is None else self._reviews(period)
        reviews = []
        while (end := (math.floor(period.since / HOUR) + 1) * HOUR) <= now:
            period.add(states, load, end, known=known)
            reviews += self._reviews(period)
            period = self._period = _Period(end)
            self._skipped = 0
        period.add(states, load, now, known=known)
        if now - period.published_at >= PUBLISH_INTERVAL:
            period.published_at = now
            reviews += self._reviews(period)
        return reviews

    def _states(
        self, names: Sequence[str], load: Array, pressures: Mapping[str, NodePressure | None]
    ) -> list[tuple[str, _State]]:
        """The nodes that are above a threshold of load or pressure."""
        above, states = load > self._high, list[tuple[str, _State]]()
        indexes = range(len(names)) if self._pressure != PressureThresholds() else np.flatnonzero(above.any(axis=1))
        for index in map(int, indexes):
            over = [name for column, name in enumerate(RESOURCES) if above[index, column]]
            hot = is_hot(over, pressures.get(names[index]), self._pressure, required=True)
            if over or hot:
                states.append((names[index], "waiting" if not over else "over" if hot else "busy"))
        return states

    def _reviews(self, period: "_Period") -> list[ClusterReview]:
        """The review of a period, if there is anything to publish."""
        return [period.review(self._high, self._skipped)] if period.seen or self._skipped else []


class _Period:
    """Sums over a part of an hour, weighted with seconds."""

    def __init__(self, since: float) -> None:
        self.since = self.until = self.published_at = since
        self.seen = 0.0
        self._nodes = 0.0
        self._seconds: dict[_State, defaultdict[str, float]] = {state: defaultdict(float) for state in _STATES}
        # The first row has sums, the second the seconds in which the load of any node was known.
        self._spread = np.zeros((2, len(RESOURCES)))
        self._deviation = np.zeros((2, len(RESOURCES)))

    def add(self, states: Sequence[tuple[str, _State]], load: Array, until: float, *, known: bool) -> None:
        seconds = until - self.until
        self.until = until
        if not known:
            return
        self.seen += seconds
        self._nodes += seconds * int(np.count_nonzero(~np.isnan(load).all(axis=1)))
        for name, state in states:
            self._seconds[state][name] += seconds
            if state == "busy":
                self._seconds["over"][name] += seconds
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
            over=self._rounded("over"),
            over_without_pressure=self._rounded("busy"),
            under_with_pressure=self._rounded("waiting"),
            high=resources(high),
            spread=_mean(self._spread),
            deviation=_mean(self._deviation),
            skipped=skipped,
        )

    def _rounded(self, state: _State) -> dict[str, float]:
        return {name: round(seconds, 1) for name, seconds in self._seconds[state].items()}


def _mean(weighted: Array) -> Resources:
    total, seconds = weighted
    return resources(np.divide(total, seconds, out=np.full_like(total, np.nan), where=seconds > 0))
