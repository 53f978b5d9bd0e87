"""The figures of all runs as a table, for terminals, pages and programs."""

import math
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec
from rich.table import Table
from rich.text import Text

from equipoise.lab.capacity.answers import CapacityAnswers
from equipoise.lab.report.comparison import Case, compared
from equipoise.lab.results import RunFigures


class Column(msgspec.Struct, frozen=True):
    """A figure of a case."""

    name: str
    about: str
    value: Callable[[RunFigures], float]
    form: str = ".1f"
    ranged: bool = False
    """Whether the range over several orders of arrivals is shown."""

    optional: bool = False
    """Whether the column is omitted if all values are 0."""

    def cell(self, case: Case) -> str:
        """The value of the median run with its range: "78.3 (75–81)"."""
        text = format(self.value(case.median), self.form)
        low, high = case.range(self.value)
        return f"{text} ({math.floor(low):,}–{math.ceil(high):,})" if self.ranged and low < high else text


_STYLES = {"broken": "red", "best": "bold green", "stock": "dim", "reference": "dim", "": ""}

COLUMNS = (
    Column(
        "peak spread",
        "CPU load of the most loaded minus the least loaded node, at the hour with the highest usage, in points",
        lambda run: run.peak_spread,
        ranged=True,
    ),
    Column("median spread", "the same, median over all hours", lambda run: run.median_spread, ranged=True),
    Column("p90 spread", "the same, in 90 % of the hours at most", lambda run: run.p90_spread),
    Column(
        "peak std", "standard deviation of the nodes' CPU load at the peak hour, in points", lambda run: run.peak_std
    ),
    Column("hours >80 %", "node-hours with a mean CPU load above 80 %", lambda run: run.hours_above_80, ",.0f"),
    Column("hours >90 %", "node-hours with a mean CPU load above 90 %", lambda run: run.hours_above_90, ",.0f"),
    Column(
        "moved %",
        "evictions per 100 pods: more than 100 if pods are moved several times",
        lambda run: 100 * run.moved_share,
    ),
    Column(
        "without gap",
        "moved pods that ran until their replacement was ready",
        lambda run: run.without_gap,
        ",.0f",
        optional=True,
    ),
    Column(
        "gap s",
        "seconds in which a workload had fewer running replicas than wanted, summed over the workloads",
        lambda run: run.gap_seconds,
        ",.0f",
        optional=True,
    ),
    Column("moves /h", "moves per hour", lambda run: run.moves_per_hour),
    Column(
        "preempted",
        "pods that kube-scheduler deleted for pods of higher priority",
        lambda run: run.preempted,
        ",.0f",
        optional=True,
    ),
    Column("unplaced", "pods without a node", lambda run: run.unplaced, ",.0f", ranged=True),
    Column(
        "violations",
        "violated anti-affinity rules and exceeded eviction limits: must be 0",
        lambda run: run.violations,
        ",.0f",
        ranged=True,
    ),
)


def shown_columns(figures: Sequence[RunFigures]) -> list[Column]:
    return [column for column in COLUMNS if not column.optional or any(map(column.value, figures))]


def table(figures: Sequence[RunFigures], kind: type[Table] = Table) -> Table:
    """A table of this kind with one row per case, the stock scheduler first in each scenario, the best highlighted."""
    shown = kind(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    for name in ("", "scenario", "policy", "de-\nscheduler"):
        shown.add_column(name, no_wrap=True)
    columns = shown_columns(figures)
    for column in columns:
        shown.add_column(column.name.replace(" ", "\n"), justify="right")
    comparisons = compared(figures)
    if not comparisons:
        shown.caption = "no runs: nothing to compare"
    for comparison in comparisons:
        for case in comparison.cases:
            shown.add_row(
                *map(Text, comparison.names(case)),
                *(column.cell(case) for column in columns),
                style=_STYLES[comparison.kind(case)],
            )
        if comparison is not comparisons[-1]:
            shown.add_row()
    return shown


def plugin_problems(figures: Sequence[RunFigures]) -> list[str]:
    """Sentences about the problems of plugins. The pods concerned remained pending and were tried again."""
    attempts_by_problem: Counter[tuple[str, str]] = Counter()
    for run in figures:
        for problem, attempts in run.plugin_problems.items():
            attempts_by_problem[run.scenario, problem] += attempts
    return [
        f"{scenario}: {problem} ({attempts:,} attempts)"
        for (scenario, problem), attempts in attempts_by_problem.items()
    ]


def encoded(figures: Sequence[RunFigures], capacity: CapacityAnswers | None = None) -> str:
    """A JSON list with one run per line. With answers about capacity, it is an object that has this list as `runs`."""
    rows = ",\n".join(msgspec.json.encode(run).decode() for run in figures)
    runs = f"[\n{rows}\n]" if rows else "[]"
    if capacity is None:
        return f"{runs}\n"
    # `runs` becomes the first field of the object with the answers.
    answers = msgspec.json.encode(capacity).decode().removeprefix("{")
    return f'{{"runs": {runs},\n{answers}\n'
