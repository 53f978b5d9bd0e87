"""Groups runs that differ in their order of arrivals, and finds the best case of each scenario."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from equipoise.lab.results import GREEDY, PODS_PER_TOLERATED, STOCK, RunFigures, Scenario

SCENARIOS: dict[Scenario, str] = {
    "given": "starts with the placement of the trace",
    "churn": "workloads are rolled out and scaled through the day",
    "autoscaled": "workloads are scaled through the day as a HorizontalPodAutoscaler scales them",
    "fresh": "every pod is placed from scratch, in the order of arrival",
}

_SAMPLES = {"in": "in sample", "out": "out of sample"}

REFERENCES = frozenset({GREEDY})
"""Policies that a cluster cannot use. Cases are compared with them, but they are never the best case."""

BEST = (
    "Best is the lowest sum of the spread at the peak hour and the median spread. Excluded are cases with a violation "
    "in any order of arrivals, and with more unplaced pods than the stock scheduler (by more than one in 500)."
)
MEDIAN_RUN = (
    "Of several orders of arrivals, the median run by that sum is shown (of an even number, the worse of the middle "
    "two), with the lowest and highest of all in brackets."
)


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of one policy, with or without the descheduler, in one scenario."""

    policy: str
    """The name as displayed, including `reference`, `hints` and, where the scenario has both, the sample."""

    runs: tuple[RunFigures, ...]
    """The runs, one for each order of arrivals and at least one. The most level run comes first."""

    @property
    def median(self) -> RunFigures:
        """The median run; of an even number, the worse of the middle two."""
        return self.runs[len(self.runs) // 2]

    @property
    def label(self) -> str:
        return f"{self.policy} + descheduler" if self.median.descheduler else self.policy

    @property
    def stock(self) -> bool:
        """Whether the case is kube-scheduler alone."""
        return self.median.policy == STOCK and not self.median.descheduler

    @property
    def reference(self) -> bool:
        return self.median.policy in REFERENCES

    def range(self, value: Callable[[RunFigures], float]) -> tuple[float, float]:
        values = [value(run) for run in self.runs]
        return min(values), max(values)

    def is_of(self, figures: RunFigures) -> bool:
        return any(run is figures for run in self.runs)


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The cases of one scenario."""

    scenario: Scenario
    cases: tuple[Case, ...]
    """The cases, at least one: the stock scheduler, the others (the most level one first), the references."""

    best: Case | None
    """The best case; None when every case is excluded."""

    excluded: tuple[Case, ...]
    """The cases that cannot be the best, because of violations or unplaced pods. See `BEST`."""

    @property
    def stock(self) -> Case | None:
        return self.cases[0] if self.cases[0].stock else None

    @property
    def shown(self) -> Case:
        """The case whose heat map is drawn: the best, or the most level one other than the stock scheduler."""
        others = [case for case in self.cases if not case.stock and not case.reference]
        if self.best is not None and not self.best.stock:
            return self.best
        return others[0] if others else self.cases[0]

    @property
    def headline_case(self) -> Case:
        """The best case; without one, the shown case."""
        return self.best or self.shown

    def kind(self, case: Case) -> Literal["broken", "best", "stock", "reference", ""]:
        """How the row of the case is highlighted."""
        if any(run.violations for run in case.runs):
            return "broken"
        return "best" if case is self.best else "stock" if case.stock else "reference" if case.reference else ""

    def names(self, case: Case) -> tuple[str, str, str, str]:
        """The first cells of the case's row: best or excluded, scenario, policy, and whether a descheduler runs."""
        rank = "best" if case is self.best else "excluded" if case in self.excluded else ""
        return rank, self.scenario, case.policy, "yes" if case.median.descheduler else "no"

    def change(self, value: Callable[[RunFigures], float]) -> str:
        """The values of the stock scheduler and of the best case, rounded, such as "78 → 26".

        A single value if they are equal, or if one of the cases is missing.
        """
        ends = [case for case in (self.stock, self.headline_case) if case is not None]
        return " → ".join(dict.fromkeys(f"{value(case.median):.0f}" for case in ends))

    @property
    def finding(self) -> str:
        """A summary in one sentence."""
        if self.best is None:
            return "No case is without violations and places as many pods as the stock scheduler."
        peak, day = self.change(lambda run: run.peak_spread), self.change(lambda run: run.median_spread)
        if not self.best.stock:
            return f"{self.best.label} levels best: spread {peak} points at the peak hour, {day} over all hours."
        suffix = "" if len(self.cases) == 1 else "; no compared case levels better"
        return f"The stock scheduler: spread {peak} points at the peak hour, {day} over all hours{suffix}."


def level(figures: RunFigures) -> float:
    """The sum that cases are ranked by, in points; lower is better. See `BEST`."""
    return figures.peak_spread + figures.median_spread


def compared(figures: Sequence[RunFigures]) -> list[Comparison]:
    """One comparison per scenario."""
    return [
        _comparison(scenario, runs)
        for scenario in SCENARIOS
        if (runs := [run for run in figures if run.scenario == scenario])
    ]


def _comparison(scenario: Scenario, figures: Sequence[RunFigures]) -> Comparison:
    runs: defaultdict[tuple[str, bool, bool, str], list[RunFigures]] = defaultdict(list)
    for run in figures:
        runs[run.policy, run.placement == "hints", run.descheduler, run.sample].append(run)
    both = len({run.sample for run in figures}) > 1
    cases = [
        Case(policy=_named(policy, hints, _SAMPLES[sample] if both else ""), runs=tuple(sorted(same, key=level)))
        for (policy, hints, _, sample), same in runs.items()
    ]
    cases.sort(key=lambda case: (not case.stock, case.reference, level(case.median), case.median.moved_share))
    valid = _valid(cases)
    return Comparison(
        scenario=scenario,
        cases=tuple(cases),
        best=min(valid, key=lambda case: (level(case.median), case.median.moved_share), default=None),
        excluded=tuple(case for case in cases if not case.reference and case not in valid),
    )


def _named(policy: str, hints: bool, sample: str) -> str:
    reference = policy in REFERENCES
    notes = [note for note in ("reference" if reference else "", "hints" if hints else "", sample) if note]
    return f"{policy} ({', '.join(notes)})" if notes else policy


def _valid(cases: Sequence[Case]) -> list[Case]:
    """The cases that are not excluded, and are no reference. The best is one of them."""
    baseline = max((case.median.unplaced for case in cases if case.stock), default=0)
    most = baseline + cases[0].median.pods // PODS_PER_TOLERATED
    return [
        case
        for case in cases
        if not case.reference and all(run.violations == 0 for run in case.runs) and case.median.unplaced <= most
    ]
