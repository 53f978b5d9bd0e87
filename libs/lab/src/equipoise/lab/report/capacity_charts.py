"""The charts about batch work (delivered against suppressed) and about fewer nodes."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from equipoise.lab.capacity.answers import CapacityAnswers
from equipoise.lab.capacity.batch_work import RULES, BatchCapacity, BatchOutcome, Rule
from equipoise.lab.capacity.fewer_nodes import NodesNeeded
from equipoise.lab.report.capacity_tables import LIMITS, nodes_text
from equipoise.lab.report.drawing import WIDTH, Chart, Theme, chart
from equipoise.lab.report.drawing import figure as new_figure

_TICKS = (0, 1, 2, 5, 10, 20, 30, 50, 100)
"""Ticks of the axis of suppressed core-hours, in percent."""

_SIDES = ((1, "CPU alone"), (2, "CPU and memory"))


def capacity_charts(answers: CapacityAnswers, width: int = WIDTH) -> list[Chart]:
    """A chart for each answer."""
    batch, needed = answers.batch, answers.nodes_needed
    by_requests = answers.requests.nodes_needed if answers.requests is not None else ()
    charts = [] if batch is None else [chart("batch", lambda theme: _frontier(batch, theme), width)]
    if needed:
        charts.append(chart("nodes", lambda theme: nodes_chart(needed, theme), width))
    if by_requests:
        charts.append(chart("requests", lambda theme: nodes_chart(by_requests, theme), width))
    return charts


def _frontier(batch: BatchCapacity, theme: Theme) -> tuple[Figure, str]:
    """The chart of batch work: a line for each rule, with a point for each setting."""
    request = batch.request
    outcomes = [outcome for outcome in batch.work if outcome.threshold == request.frontier]
    ours = next(
        outcome for outcome in outcomes if outcome.rule == "lasting" and outcome.usual and len(outcome.resources) == 1
    )
    title = f"Batch work: {_percent(ours.running)} of the cores, {_percent(ours.suppressed)} of it suppressed"
    about = (
        f"{batch.nodes:,} nodes used to {request.frontier:.0%}, batch pods of {request.hours} h; label: running / "
        "suppressed   ● as it is used, • if nodes offer less or more"
    )
    figure = new_figure(title, about, theme)
    axes = figure.subplots(1, len(_SIDES), sharex=True)
    colors: dict[Rule, str] = {"now": theme.stock, "last_day": theme.others[0], "lasting": theme.best}
    for axis, (resources, name) in zip(axes, _SIDES, strict=True):
        for rule, color in colors.items():
            line = sorted(
                (outcome for outcome in outcomes if outcome.rule == rule and len(outcome.resources) == resources),
                key=lambda outcome: outcome.running,
            )
            _line(axis, rule, line, color, theme)
        axis.set_title(name, loc="left", fontsize=13)
        axis.set_xlabel("suppressed (% of their core-hours)")
        axis.grid()
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
        axis.set_ylim(
            0.0, 150.0 * max(0.001, *(outcome.running for outcome in outcomes if len(outcome.resources) == resources))
        )
    # Most points are near 0. A square-root scale keeps them apart.
    highest = 100.0 * max(0.01, *(outcome.suppressed for outcome in outcomes))
    axes[0].set_xscale("function", functions=(lambda value: np.sqrt(np.maximum(value, 0.0)), np.square))
    axes[0].set_xlim(0.0, 1.1 * highest)
    ticks = [tick for tick in _TICKS if tick <= 1.1 * highest]
    axes[0].set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes[0].set_ylabel("cores of batch pods (% of all)")
    axes[0].legend(loc="upper left", frameon=False, fontsize=11)
    return figure, title


def _line(axis: Axes, rule: Rule, line: Sequence[BatchOutcome], color: str, theme: Theme) -> None:
    ours = rule == "lasting"
    suppressed, running = [100 * outcome.suppressed for outcome in line], [100 * outcome.running for outcome in line]
    axis.plot(
        suppressed,
        running,
        "o-",
        color=color,
        linewidth=3.0 if ours else 1.5,
        ms=3.5,
        label=RULES[rule],
        zorder=3 if ours else 2,
    )
    usual = next(outcome for outcome in line if outcome.usual)
    axis.plot(100 * usual.suppressed, 100 * usual.running, "o", color=color, ms=10, zorder=4)
    on_the_left = rule == "now"
    axis.annotate(
        f"{_percent(usual.running)} / {_percent(usual.suppressed)}",
        (100 * usual.suppressed, 100 * usual.running),
        xytext=(-10 if on_the_left else 9, 8 if on_the_left else -9),
        textcoords="offset points",
        ha="right" if on_the_left else "left",
        va="center",
        fontsize=11,
        color=color,
        fontweight="bold" if ours else "normal",
        bbox={"facecolor": theme.paper, "edgecolor": "none", "pad": 0.5, "alpha": 0.8},
        zorder=5,
    )


def nodes_chart(needed: Sequence[NodesNeeded], theme: Theme) -> tuple[Figure, str]:
    """The chart of fewer nodes: a bar for each case."""
    whole = needed[0].nodes
    answered = [case for case in needed if case.needed is not None and not case.reference]
    fewest = min((case.needed for case in answered if case.needed is not None), default=whole)
    title = f"{whole - fewest:,} of {whole:,} nodes fewer would do" if fewest < whole else "No node less would do"
    figure = new_figure(title, "nodes above 80 % for no more hours, and no more pods without a node, than now", theme)
    axis = figure.subplots()
    for row, case in enumerate(needed[::-1]):
        best = case.needed is not None and case.needed == fewest and not case.reference
        color = theme.best if best else theme.stock if case.reference else theme.soft
        length = case.needed or whole
        axis.barh(row, whole, color=theme.line, height=0.62)
        axis.barh(row, length, color=color, height=0.62, alpha=1.0 if case.needed else 0.3)
        axis.annotate(
            _bar(case),
            (whole, row),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            fontsize=11,
            color=theme.best if best else theme.soft,
            fontweight="bold" if best else "normal",
        )
    axis.set_yticks(range(len(needed)), [f"{case.scenario}, {case.label}" for case in needed[::-1]])
    axis.set_xlim(0, 1.45 * whole)
    axis.set_ylim(-0.6, len(needed) - 0.4)
    axis.set_xticks([tick for tick in axis.get_xticks() if 0 <= tick <= whole])
    axis.set_xlabel("nodes needed", loc="left")
    axis.spines[:].set_visible(False)
    axis.tick_params(length=0)
    return figure, title


def _bar(case: NodesNeeded) -> str:
    amount = nodes_text(case)
    return f"{amount} · {LIMITS[case.limited_by]}" if case.limited_by else amount


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
