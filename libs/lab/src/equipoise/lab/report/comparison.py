"""Runs of the same case over several arrival orders, and which case of a scenario levels best."""

from collections import defaultdict
from collections.abc import Callable, Sequence

import msgspec

from equipoise.lab.results import Figures, Scenario

SCENARIOS: dict[Scenario, str] = {
    "given": "starts from the placement of the trace",
    "churn": "workloads are rolled out and scaled through the day",
    "fresh": "every pod is placed anew, in the order of arrival",
}

_SAMPLES = {"in": "in sample", "out": "out of sample"}

STOCK = "stock"
REFERENCES = frozenset({"greedy"})
"""Policies that no cluster can have: compared with, never the best."""

BEST = (
    "Best is the lowest sum of the spread at the peak hour and the median spread, with no rule broken in any order of "
    "arrivals, and no more pods left unplaced than by the stock scheduler, give or take one in 500."
)
_PODS_PER_LUCK = 500
"""Where memory is nearly full, whether the last large pod still fits is luck: of so many pods one does not count."""

MEDIAN_RUN = (
    "Of several arrival orders the median run by that sum is shown (of an even number the worse of the middle two), "
    "with the lowest and the highest of all in brackets."
)


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of one policy, with or without the descheduler, in one scenario."""

    policy: str
    """As shown: a reference is called one, and the sample is named where the scenario has both."""

    runs: tuple[Figures, ...]
    """At least one; one for each arrival order, the most level first."""

    @property
    def median(self) -> Figures:
        """Of an even number the worse of the middle two: no luck is claimed."""
        return self.runs[len(self.runs) // 2]

    @property
    def label(self) -> str:
        return f"{self.policy} + descheduler" if self.median.descheduler else self.policy

    @property
    def stock(self) -> bool:
        """kube-scheduler alone."""
        return self.median.policy == STOCK and not self.median.descheduler

    @property
    def reference(self) -> bool:
        return self.median.policy in REFERENCES

    def range(self, value: Callable[[Figures], float]) -> tuple[float, float]:
        values = [value(run) for run in self.runs]
        return min(values), max(values)

    def is_of(self, figures: Figures) -> bool:
        return any(run is figures for run in self.runs)


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The cases of one scenario."""

    scenario: Scenario
    cases: tuple[Case, ...]
    """At least one. The stock scheduler first, then the most level; references last."""

    best: Case | None
    """None when every case broke a rule or left more pods unplaced than the stock scheduler."""

    @property
    def stock(self) -> Case | None:
        return self.cases[0] if self.cases[0].stock else None

    @property
    def shown(self) -> Case:
        """The case whose heat map is worth a look: the best, but rather another than the stock scheduler itself."""
        others = [case for case in self.cases if not case.stock and not case.reference]
        if self.best is not None and not self.best.stock:
            return self.best
        return others[0] if others else self.cases[0]

    @property
    def told(self) -> Case:
        """The best; without one the case that is shown."""
        return self.best or self.shown

    def change(self, value: Callable[[Figures], float]) -> str:
        """From the stock scheduler to the best, rounded: "78 → 26", or "26" when there are not both."""
        ends = [case for case in (self.stock, self.told) if case is not None]
        return " → ".join(dict.fromkeys(f"{value(case.median):.0f}" for case in ends))

    @property
    def finding(self) -> str:
        """One sentence."""
        if self.best is None:
            return "No case kept every rule and placed as many pods as the stock scheduler."
        peak, day = self.change(lambda run: run.peak_spread), self.change(lambda run: run.median_spread)
        if not self.best.stock:
            return f"{self.best.label} levels best: spread {peak} points at the peak hour, {day} over all hours."
        rest = "" if len(self.cases) == 1 else "; nothing that was compared levels better"
        return f"The stock scheduler: spread {peak} points at the peak hour, {day} over all hours{rest}."


def level(figures: Figures) -> float:
    """What cases are ranked by, in points; lower is better. See `BEST`."""
    return figures.peak_spread + figures.median_spread


def compared(figures: Sequence[Figures]) -> list[Comparison]:
    """Scenario by scenario."""
    return [
        _comparison(scenario, runs)
        for scenario in SCENARIOS
        if (runs := [run for run in figures if run.scenario == scenario])
    ]


def _comparison(scenario: Scenario, figures: Sequence[Figures]) -> Comparison:
    runs: defaultdict[tuple[str, bool, str], list[Figures]] = defaultdict(list)
    for run in figures:
        runs[run.policy, run.descheduler, run.sample].append(run)
    both = len({run.sample for run in figures}) > 1
    cases = [
        Case(policy=_named(policy, _SAMPLES[sample] if both else ""), runs=tuple(sorted(same, key=level)))
        for (policy, _, sample), same in runs.items()
    ]
    cases.sort(key=lambda case: (not case.stock, case.reference, level(case.median), case.median.moved_share))
    return Comparison(scenario=scenario, cases=tuple(cases), best=_best(cases))


def _named(policy: str, sample: str) -> str:
    notes = [*(["reference"] if policy in REFERENCES else []), *([sample] if sample else [])]
    return f"{policy} ({', '.join(notes)})" if notes else policy


def _best(cases: Sequence[Case]) -> Case | None:
    left = max((case.median.unplaced for case in cases if case.stock), default=0)
    most = left + cases[0].median.pods // _PODS_PER_LUCK
    sound = [
        case
        for case in cases
        if not case.reference and all(run.violations == 0 for run in case.runs) and case.median.unplaced <= most
    ]
    return min(sound, key=lambda case: (level(case.median), case.median.moved_share), default=None)
