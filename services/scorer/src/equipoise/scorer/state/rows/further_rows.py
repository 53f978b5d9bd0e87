"""The loads of further resources (`load.resources`) and the pressure of each node, one row per node."""

import math
from collections.abc import Sequence

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.load.correction import (
    FUTURE_TOLERANCE,
    UsageOf,
    corrected,
    load_of,
    measured_usage,
    partial_lifetimes,
)
from equipoise.contracts.load.metric_rule import PRESSURE_METRICS
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.contracts.numeric import Array, Flags, Rows, np
from equipoise.scorer.decisions.arrays import FurtherLoads, LoadRanges

_LIFETIME = 1.0
"""Seconds for which the ranges of all nodes are kept."""


class FurtherRows:
    """Values over the shortest window, corrected for pods that arrived or left like those of cpu and memory."""

    def __init__(self, load: LoadSettings, names: Sequence[str]) -> None:
        """`names`: the metrics that a policy uses, as in `MetricRule`."""
        self._settings = load
        self._names = tuple(names)
        self._load: Array = np.full((1, len(names)), np.nan)
        """rows × names: shares. The last row of every array stays empty: row −1 is an unknown node."""

        self._sampled_at: Array = np.full((1, len(names)), -np.inf)
        self._lacking: Flags = np.zeros((1, len(names)), dtype=np.bool_)
        """rows × names: see `FurtherLoads`."""

        self._ranges = LoadRanges.of(self._load)
        self._ranges_at = -math.inf

    def update(self, row: int, utilization: NodeUtilization, placement: NodePlacement, usage_of: UsageOf) -> None:
        """Compute the row of a node from its latest messages."""
        loads = self._loads(utilization, placement, usage_of)
        pressure = utilization.pressure
        for column, name in enumerate(self._names):
            value, sampled_at = loads.get(name), 0.0
            if (resource := PRESSURE_METRICS.get(name)) is not None and pressure is not None:
                value, sampled_at = getattr(pressure.waiting, resource), pressure.sampled_at
            elif (status := utilization.resources.get(name)) is not None:
                sampled_at = status.sampled_at
            self._load[row, column] = math.nan if value is None else value
            self._sampled_at[row, column] = sampled_at
            self._lacking[row, column] = name not in PRESSURE_METRICS and name not in utilization.resources

    def _loads(self, utilization: NodeUtilization, placement: NodePlacement, usage_of: UsageOf) -> dict[str, float]:
        window = self._settings.shortest
        value = utilization.windows.get(window.name)
        if value is None or value.mean.further is None:
            return {}
        lifetimes = partial_lifetimes(utilization, placement, usage_of, load=self._settings)
        usage = corrected(
            value.mean,
            (lifetime for _, lifetime in lifetimes),
            sampled_at=value.sampled_at,
            length=window.length,
            load=self._settings,
            least=measured_usage(utilization, placement),
        )
        return load_of(usage, utilization.base).further or {}

    def clear(self, row: int) -> None:
        self._load[row], self._sampled_at[row], self._lacking[row] = np.nan, -np.inf, False

    def grow(self, rows: int) -> None:
        more = rows + 1 - len(self._load)
        self._load = np.concatenate([self._load, np.full((more, len(self._names)), np.nan)])
        self._sampled_at = np.concatenate([self._sampled_at, np.full((more, len(self._names)), -np.inf)])
        self._lacking = np.concatenate([self._lacking, np.zeros((more, len(self._names)), dtype=np.bool_)])

    def loads(self, rows: Rows, now: float) -> FurtherLoads:
        """The values of these nodes, and the ranges of all nodes. An outdated value is unknown."""
        load = np.where(self._fresh(self._sampled_at.take(rows, axis=0), now), self._load.take(rows, axis=0), np.nan)
        lacking = self._lacking.take(rows, axis=0)
        return FurtherLoads(names=self._names, load=load, lacking=lacking, of_all=self._ranges_of_all(now))

    def _fresh(self, sampled_at: Array, now: float) -> Flags:
        fresh: Flags = (now - sampled_at <= self._settings.freshness.score) & (sampled_at <= now + FUTURE_TOLERANCE)
        return fresh

    def _ranges_of_all(self, now: float) -> LoadRanges:
        if not 0.0 <= now - self._ranges_at < _LIFETIME:
            self._ranges = LoadRanges.of(np.where(self._fresh(self._sampled_at, now), self._load, np.nan))
            self._ranges_at = now
        return self._ranges
