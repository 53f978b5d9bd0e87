"""How much batch work fits beside the pods of a trace, and for how long.

The answer depends on the threshold, and on the rule by which nodes offer resources.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from equipoise.contracts.numeric import Array
from equipoise.lab.capacity.peak_predictors import PeakComparison, PredictedPeak
from equipoise.lab.model.batch_demand import (
    BatchRun,
    Forecast,
    LastingOffer,
    NodeDays,
    OfferRule,
    lowest_of_last_day,
    offered_now,
    remaining_of_idle,
    run_all,
    with_margin,
)
from equipoise.lab.model.cluster_usage import MIB
from equipoise.lab.model.node_days import NOISE, cluster_days
from equipoise.lab.model.trace import Trace
from equipoise.reclaimer.decisions.forecast import SUPPRESSED
from equipoise.reclaimer.state.deviations import STEPS_PER_HOUR

Rule = Literal["now", "last_day", "lasting"]
"""The rule by which a node offers resources. `now`: what is idle now (Koordinator's rule). `last_day`: what was idle
in the worst quarter hour of the last 24 h. `lasting`: what the reclaimer expects to last."""

RULES: dict[Rule, str] = {
    "now": "idle now (Koordinator's rule)",
    "last_day": "worst of the last 24 h",
    "lasting": "lasts for its lifetime (Equipoise)",
}

STILL_THERE_HOURS = (1, 6, 24)
_SHARES = (0.005, 0.01, 0.02, 0.06, 0.1)
"""Further values of the setting of `lasting`, which are simulated for the frontier only."""

_MARGINS = (0.05, 0.1, 0.15, 0.2)
"""Further values of the setting of the other rules, which are simulated for the frontier only.

Such a margin is a share of a node that is not offered; it has the effect of a lower threshold.
"""


class BatchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The size of the batch pods, and the thresholds up to which nodes may be used."""

    thresholds: tuple[float, ...] = (0.5, 0.65, 0.8, 0.9)
    """Shares (0..1) of a node that all pods together may use, of CPU and of memory."""

    frontier: float = 0.65
    """The threshold at which all settings of each rule are compared."""

    hours: int = 6
    pod_cores: float = 1.0
    pod_memory_mib: float = 2_048.0


class Idle(msgspec.Struct, frozen=True, kw_only=True):
    """The idle resources below a threshold, as the mean of all quarter hours."""

    resource: Literal["cpu", "memory"]
    threshold: float
    offered: float
    """Share (0..1) of the capacity."""

    still_there: dict[int, float]
    """The share (0..1) of `offered` that stays idle for a number of hours, by that number."""


class BatchOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one rule with one setting. The queue of batch pods never ends."""

    resources: tuple[str, ...]
    """The resources that a node has to offer: ("cpu",) or ("cpu", "memory")."""

    threshold: float
    rule: Rule
    setting: float
    """The setting of the rule. For `lasting`, it is the share of the hours in which the last core may be suppressed.
    For other rules, it is the share of a node that is not offered although it may be used.
    """

    running: float
    """Mean share (0..1) of all cores that batch pods request."""

    suppressed: float
    """Share (0..1) of the core-hours of batch pods that was suppressed."""

    core_hours: float
    """Core-hours that batch pods run per day."""

    suppressed_core_hours: float
    """Suppressed core-hours per day."""

    @property
    def usual(self) -> bool:
        """Whether the setting is the usual one of the rule, which is simulated for every threshold."""
        return self.setting == (SUPPRESSED if self.rule == "lasting" else 0.0)


class BatchCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a request, for one trace."""

    nodes: int
    """The number of nodes that have pods. Other nodes are ignored."""

    cores: float
    request: BatchRequest
    sample: Literal["in", "out"]
    idle: tuple[Idle, ...]
    work: tuple[BatchOutcome, ...]
    peaks: tuple[PredictedPeak, ...]
    """The predictors of CPU at the threshold of the frontier."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the figures has to know."""
        request = self.request
        return (
            f"Batch pods request {request.pod_cores:g} cores and {request.pod_memory_mib:g} MiB and run for "
            f"{request.hours} h; more of them are always pending. Suppressed: more is requested than is idle at that "
            "time; of a node that lacks both CPU and memory, the larger part counts.",
            f"In sample: the first day is repeated, and every workload deviates from it by {NOISE:.0%} (random)."
            if self.sample == "in"
            else "Out of sample: what lasts is learned from the days before.",
        )


class BatchSimulation:
    """A simulation of all rules and thresholds, which can be run once."""

    def __init__(self, trace: Trace, request: BatchRequest) -> None:
        self._request = request
        self._days = days = cluster_days(trace, pod_cores=request.pod_cores, pod_memory=request.pod_memory_mib * MIB)
        self._thresholds = sorted({*request.thresholds, request.frontier})
        self.hours = (days.cpu.measured_until - days.cpu.measured_from) // STEPS_PER_HOUR + 24
        """The duration, in hours of virtual time."""

        resources = {"cpu": days.cpu, "memory": days.memory}
        forecasts = {name: Forecast(node_days, hours=request.hours) for name, node_days in resources.items()}
        self._peaks = PeakComparison(days, forecasts["cpu"], threshold=request.frontier, hours=request.hours)
        self._runs: list[tuple[tuple[str, ...], float, Rule, float, BatchRun]] = []
        for names in (("cpu",), ("cpu", "memory")):
            offered = [resources[name] for name in names]
            for threshold in self._thresholds:
                for rule in RULES:
                    for setting in _settings(rule, frontier=threshold == request.frontier):
                        rules = [_offer(rule, setting, resources[name], forecasts[name]) for name in names]
                        run = BatchRun(offered, rules, hours=request.hours, threshold=threshold)
                        self._runs.append((names, threshold, rule, setting, run))

    def advance(self) -> Iterator[int]:
        """Run to the end; yields the number of each hour when it is over."""
        for number, step in enumerate(run_all(self._days.cpu, [run for *_, run in self._runs]), start=1):
            self._peaks.advance(step)
            if number % STEPS_PER_HOUR == 0:
                yield number // STEPS_PER_HOUR

    def result(self) -> BatchCapacity:
        """The result after the end."""
        days, cores = self._days, float(self._days.cpu.capacity.sum())
        return BatchCapacity(
            nodes=len(days.cpu.capacity),
            cores=round(cores, 3),
            request=self._request,
            sample="in" if days.in_sample else "out",
            idle=(
                *(_idle("cpu", days.cpu, threshold) for threshold in self._thresholds),
                *(_idle("memory", days.memory, threshold) for threshold in self._thresholds),
            ),
            work=tuple(_work(*run, cores=cores) for run in self._runs),
            peaks=self._peaks.result(),
        )


def _settings(rule: Rule, *, frontier: bool) -> Sequence[float]:
    usual, others = (SUPPRESSED, _SHARES) if rule == "lasting" else (0.0, _MARGINS)
    return sorted((usual, *others)) if frontier else (usual,)


def _offer(rule: Rule, setting: float, days: NodeDays, forecast: Forecast) -> OfferRule:
    if rule == "lasting":
        return LastingOffer(forecast, suppressed=setting)
    margin: Array = setting * days.capacity
    return with_margin(offered_now if rule == "now" else lowest_of_last_day, margin)


def _idle(resource: Literal["cpu", "memory"], days: NodeDays, threshold: float) -> Idle:
    idle = remaining_of_idle(days, threshold=threshold, hours=STILL_THERE_HOURS)
    return Idle(
        resource=resource,
        threshold=threshold,
        offered=round(idle.offered, 5),
        still_there={hours: round(share, 4) for hours, share in idle.after.items()},
    )


def _work(
    names: tuple[str, ...], threshold: float, rule: Rule, setting: float, run: BatchRun, *, cores: float
) -> BatchOutcome:
    figures = run.figures
    core_hours = figures.running * cores * 24.0
    return BatchOutcome(
        resources=names,
        threshold=threshold,
        rule=rule,
        setting=setting,
        running=round(figures.running, 5),
        suppressed=round(figures.suppressed, 5),
        core_hours=round(core_hours, 1),
        suppressed_core_hours=round(core_hours * figures.suppressed, 1),
    )
