"""What nodes can offer by predictions of their peak usage, beside an oracle.

The predictors are those of "Take it to the limit: peak prediction-driven resource overcommitment in datacenters"
(Bashir et al., EuroSys 2021), with the window and the N of the example of its simulator. A prediction is violated if
the usage of the node exceeds it before the end of the horizon.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.numeric import Array, np
from equipoise.lab.model.batch_demand import (
    Forecast,
    LastingOffer,
    OfferRule,
    Situation,
    lowest_of_last_day,
    offered_now,
)
from equipoise.lab.model.node_days import ClusterDays, PodDays
from equipoise.reclaimer.decisions.forecast import SUPPRESSED
from equipoise.reclaimer.state.deviations import STEPS_PER_DAY, STEPS_PER_HOUR

SIGMAS = 5.0
_SIGMA_STEPS = 2 * STEPS_PER_HOUR
PERCENTILE = 99.0

VIOLATIONS = (0.01, 0.05)
"""The shares of violated predictions at which predictors are compared."""

Predictor = Literal["oracle", "n_sigma", "percentiles", "maximum", "now", "last_day", "lasting"]

PREDICTORS: dict[Predictor, str] = {
    "oracle": "peak oracle: knows the usage to come",
    "n_sigma": f"N-sigma: mean and {SIGMAS:g} standard deviations of 2 h",
    "percentiles": f"sum of the pods' percentiles ({PERCENTILE:g}) of the last 24 h",
    "maximum": "the higher of both",
    "now": "idle now (Koordinator's rule)",
    "last_day": "worst of the last 24 h",
    "lasting": "lasts (Equipoise)",
}


class PredictedPeak(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one predictor: means over nodes and full hours."""

    predictor: Predictor
    usable: float
    """Share (0..1) of all cores that is offered."""

    violated: float
    """Share (0..1) of the predictions that were exceeded within the horizon."""

    usable_at: tuple[float, ...]
    """The share of all cores that is offered if the same margin on all nodes, chosen in hindsight, makes the share of
    violated predictions that of VIOLATIONS. A margin may be negative."""


class PeakComparison:
    """All predictors of CPU, hour by hour."""

    def __init__(self, days: ClusterDays, forecast: Forecast, *, threshold: float, hours: int) -> None:
        """`threshold`: share (0..1) of a node that all pods together may use. `hours`: the horizon."""
        self._days, self._hours = days, hours
        self._limit: Array = threshold * days.cpu.capacity
        self._rules: Mapping[Predictor, OfferRule] = {
            "now": offered_now,
            "last_day": lowest_of_last_day,
            "lasting": LastingOffer(forecast, suppressed=SUPPRESSED),
        }
        self._offers: dict[Predictor, list[Array]] = {name: [] for name in PREDICTORS}

    def advance(self, step: int) -> None:
        """Predict at this quarter hour, if it is a full hour that is measured."""
        cpu, limit = self._days.cpu, self._limit
        if step < cpu.measured_from or step % STEPS_PER_HOUR:
            return
        past = cpu.usage[:, :step]
        sigma, percentiles = n_sigma(past), sum_of_percentiles(self._days.pods, step)
        peaks: Mapping[Predictor, Array] = {
            "oracle": cpu.usage[:, step : step + self._hours * STEPS_PER_HOUR].max(axis=1),
            "n_sigma": sigma,
            "percentiles": percentiles,
            "maximum": np.maximum(sigma, percentiles),
        }
        for name, peak in peaks.items():
            self._offers[name].append(np.maximum(limit - peak, 0.0))
        no_pods = np.zeros((len(limit), SLOTS))
        at = Situation(step=step, past=past, limit=limit, running=no_pods[:, 0], remaining=no_pods)
        for name, rule in self._rules.items():
            self._offers[name].append(np.nan_to_num(rule(at)))

    def result(self) -> tuple[PredictedPeak, ...]:
        """The result of each predictor after the end."""
        possible, capacity = np.array(self._offers["oracle"]), self._days.cpu.capacity
        return tuple(
            _result(name, np.array(offered), possible, capacity, self._limit) for name, offered in self._offers.items()
        )


def n_sigma(past: Array) -> Array:
    """The predicted peak of each node. `past`: nodes × quarter hours."""
    recent = past[:, -_SIGMA_STEPS:]
    peak: Array = recent.mean(axis=1) + SIGMAS * recent.std(axis=1, ddof=1)
    return peak


def sum_of_percentiles(pods: PodDays, step: int) -> Array:
    """The predicted peak of each node: what its pods would use if each was at its percentile."""
    recent = pods.usage[:, max(0, step - STEPS_PER_DAY) : step]
    peak: Array = pods.counts @ np.percentile(recent, PERCENTILE, axis=1)
    return peak


def _result(name: Predictor, offered: Array, possible: Array, capacity: Array, limit: Array) -> PredictedPeak:
    """`offered`, `possible`: hours × nodes, in cores."""
    excess = (offered - possible) / capacity
    margins = [0.0 if name == "oracle" else float(np.quantile(excess, 1.0 - share)) for share in VIOLATIONS]
    total = float(capacity.sum()) * len(offered)
    return PredictedPeak(
        predictor=name,
        usable=round(float(offered.sum()) / total, 5),
        violated=round(float((excess > 1e-9).mean()), 5),
        usable_at=tuple(
            round(float(np.clip(offered - margin * capacity, 0.0, limit).sum()) / total, 5) for margin in margins
        ),
    )
