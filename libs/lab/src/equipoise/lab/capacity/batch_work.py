"""How much batch work fits beside a trace, and for how long: by threshold and by what nodes offer."""

from collections.abc import Callable, Sequence
from typing import Literal, get_args

import msgspec

from equipoise.contracts.numeric import Array
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

Rule = Literal["now", "last_day", "lasting"]
"""What nodes offer: what is idle now (Koordinator's rule); what the worst quarter hour of the last 24 h left; what the
reclaimer expects to last."""

RULES: dict[Rule, str] = {
    "now": "idle now (Koordinator's rule)",
    "last_day": "worst of the last 24 h",
    "lasting": "lasts for its lifetime (Equipoise)",
}

STILL_THERE_HOURS = (1, 6, 24)
SUPPRESSED = 0.03
"""Of the reclaimer: the last core may be suppressed for this share of the hours."""

_SHARES = (0.005, 0.01, 0.02, 0.06, 0.1)
"""Other shares of the frontier."""

_MARGINS = (0.05, 0.1, 0.15, 0.2)
"""Shares of a node that the other rules offer less in the frontier, as with a lower threshold."""


class BatchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The batch pods, and what nodes may be used to."""

    thresholds: tuple[float, ...] = (0.5, 0.65, 0.8, 0.9)
    """Shares (0..1) of a node that all pods together may use, of CPU and of memory."""

    frontier: float = 0.65
    """The threshold of the frontier."""

    hours: int = 6
    pod_cores: float = 1.0
    pod_memory_mib: float = 2_048.0


class Idle(msgspec.Struct, frozen=True, kw_only=True):
    """What is idle below a threshold, in the mean of all quarter hours."""

    resource: Literal["cpu", "memory"]
    threshold: float
    offered: float
    """Share (0..1) of the capacity."""

    still_there: dict[int, float]
    """By hours: the share (0..1) of it that stays idle for so long."""


class BatchWork(msgspec.Struct, frozen=True, kw_only=True):
    """Batch pods from a queue that never ends."""

    resources: tuple[str, ...]
    """Which a node has to offer: ("cpu",) or ("cpu", "memory")."""

    threshold: float
    rule: Rule
    setting: float
    """Of `lasting`: the share of the hours that the last core may be suppressed. Of the others: the share of a node
    that is offered less than it may be used."""

    running: float
    """Share (0..1) of all cores that batch pods request, in the mean."""

    suppressed: float
    """Share (0..1) of the core-hours of batch pods that was suppressed."""

    core_hours: float
    """A day, of batch pods."""

    suppressed_core_hours: float
    """A day."""

    @property
    def usual(self) -> bool:
        """With the setting that the rule has outside of the frontier."""
        return self.setting == (SUPPRESSED if self.rule == "lasting" else 0.0)


class BatchCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """The answer."""

    nodes: int
    """Nodes that have pods; the others are left out."""

    cores: float
    request: BatchRequest
    sample: Literal["in", "out"]
    idle: tuple[Idle, ...]
    work: tuple[BatchWork, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the figures has to know."""
        request = self.request
        return (
            f"Batch pods request {request.pod_cores:g} cores and {request.pod_memory_mib:g} MiB, run for {request.hours} h, "
            "and more of them are always pending. Suppressed: more is requested than is idle at that time; of a node that "
            "lacks both CPU and memory, the larger part counts.",
            f"In sample: the first day is repeated, and every workload deviates from it by {NOISE:.0%} (random)."
            if self.sample == "in"
            else "Out of sample: what lasts is learned from the days before.",
        )


def batch_capacity(trace: Trace, request: BatchRequest, progress: Callable[[int, int], None]) -> BatchCapacity:
    """`progress`: receives the number of hours that are simulated, and of all."""
    days = cluster_days(trace, pod_cores=request.pod_cores, pod_memory=request.pod_memory_mib * MIB)
    resources = {"cpu": days.cpu, "memory": days.memory}
    forecasts = [Forecast(each, hours=request.hours) for each in resources.values()]
    runs: list[tuple[tuple[str, ...], float, Rule, float, BatchRun]] = []
    for names in (("cpu",), ("cpu", "memory")):
        of_names = [resources[name] for name in names]
        for threshold in sorted({*request.thresholds, request.frontier}):
            for rule in get_args(Rule):
                for setting in _settings(rule, frontier=threshold == request.frontier):
                    rules = [
                        _offer(rule, setting, each, forecast)
                        for each, forecast in zip(of_names, forecasts, strict=False)
                    ]
                    run = BatchRun(of_names, rules, hours=request.hours, threshold=threshold)
                    runs.append((names, threshold, rule, setting, run))
    every = [run for *_, run in runs]
    total = (days.cpu.measured_until - days.cpu.measured_from) // 4 + 24
    for number, _ in enumerate(run_all(days.cpu, every), start=1):
        if number % 4 == 0:
            progress(number // 4, total)
    cores = float(days.cpu.capacity.sum())
    return BatchCapacity(
        nodes=len(days.cpu.capacity),
        cores=round(cores, 3),
        request=request,
        sample="in" if days.in_sample else "out",
        idle=tuple(
            _idle(name, each, threshold)
            for name, each in zip(get_args(Literal["cpu", "memory"]), resources.values(), strict=True)
            for threshold in sorted({*request.thresholds, request.frontier})
        ),
        work=tuple(_work(names, threshold, rule, setting, run, cores) for names, threshold, rule, setting, run in runs),
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
    found = remaining_of_idle(days, threshold=threshold, hours=STILL_THERE_HOURS)
    return Idle(
        resource=resource,
        threshold=threshold,
        offered=round(found.offered, 5),
        still_there={hours: round(share, 4) for hours, share in found.after.items()},
    )


def _work(
    names: tuple[str, ...], threshold: float, rule: Rule, setting: float, run: BatchRun, cores: float
) -> BatchWork:
    figures = run.figures
    core_hours = figures.running * cores * 24.0
    return BatchWork(
        resources=names,
        threshold=threshold,
        rule=rule,
        setting=setting,
        running=round(figures.running, 5),
        suppressed=round(figures.suppressed, 5),
        core_hours=round(core_hours, 1),
        suppressed_core_hours=round(core_hours * figures.suppressed, 1),
    )
