"""The figures of all runs as a table, for terminals, pages and programs."""

import math
from collections.abc import Callable, Sequence

import msgspec
from rich.table import Table
from rich.text import Text

from equipoise.lab.report.comparison import Case, Comparison, compared
from equipoise.lab.results import RunFigures


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A figure of a case."""

    name: str
    about: str
    value: Callable[[RunFigures], float]
    form: str = ".1f"
    ranged: bool = False
    """Whether the range over several orders of arrivals is shown."""

    def cell(self, case: Case) -> str:
        """The value of the median run with its range: "78.3 (75–81)"."""
        text = format(self.value(case.median), self.form)
        low, high = case.range(self.value)
        return f"{text} ({math.floor(low):,}–{math.ceil(high):,})" if self.ranged and low < high else text


COLUMNS = (
    Column(
        name="peak spread",
        about="CPU load of the most loaded minus the least loaded node, at the hour with the highest usage, in points",
        value=lambda run: run.peak_spread,
        ranged=True,
    ),
    Column(
        name="median spread", about="the same, median over all hours", value=lambda run: run.median_spread, ranged=True
    ),
    Column(name="p90 spread", about="the same, in 90 % of the hours at most", value=lambda run: run.p90_spread),
    Column(
        name="peak std",
        about="standard deviation of the nodes' CPU load at the peak hour, in points",
        value=lambda run: run.peak_std,
    ),
    Column(
        name="hours >80 %",
        about="node-hours with a mean CPU load above 80 %",
        value=lambda run: run.hours_above_80,
        form=",.0f",
    ),
    Column(
        name="hours >90 %",
        about="node-hours with a mean CPU load above 90 %",
        value=lambda run: run.hours_above_90,
        form=",.0f",
    ),
    Column(
        name="moved %", about="pods that the descheduler moved, of all pods", value=lambda run: 100 * run.moved_share
    ),
    Column(name="moves /h", about="moves per hour", value=lambda run: run.moves_per_hour),
    Column(
        name="unplaced",
        about="pods without a node",
        value=lambda run: run.unplaced,
        form=",.0f",
        ranged=True,
    ),
    Column(
        name="violations",
        about="violated anti-affinity rules and exceeded eviction limits: must be 0",
        value=lambda run: run.violations,
        form=",.0f",
        ranged=True,
    ),
)


def table(figures: Sequence[RunFigures]) -> Table:
    """A table with one row per case, the stock scheduler first in each scenario, the best highlighted."""
    shown = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    for name in ("", "scenario", "policy", "de-\nscheduler"):
        shown.add_column(name, no_wrap=True)
    for column in COLUMNS:
        shown.add_column(column.name.replace(" ", "\n"), justify="right")
    comparisons = compared(figures)
    if not comparisons:
        shown.caption = "no runs: nothing to compare"
    for comparison in comparisons:
        for case in comparison.cases:
            shown.add_row(
                "best" if case is comparison.best else "",
                case.median.scenario,
                Text(case.policy),
                "yes" if case.median.descheduler else "no",
                *(column.cell(case) for column in COLUMNS),
                style=_style(case, comparison),
            )
        if comparison is not comparisons[-1]:
            shown.add_row()
    return shown


def encoded(figures: Sequence[RunFigures]) -> str:
    """A JSON list with one run per line."""
    rows = ",\n".join(msgspec.json.encode(run).decode() for run in figures)
    return f"[\n{rows}\n]\n" if rows else "[]\n"


def _style(case: Case, comparison: Comparison) -> str:
    if any(run.violations for run in case.runs):
        return "red"
    if case is comparison.best:
        return "bold green"
    return "dim" if case.stock or case.reference else ""
