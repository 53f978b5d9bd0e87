"""The charts of a report, each on a light and a dark background: heat map, spread by hour, spread by policy."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from equipoise.lab.report.comparison import Case, Comparison
from equipoise.lab.report.drawing import WIDTH, Chart, Draw, Theme, chart
from equipoise.lab.report.drawing import figure as new_figure
from equipoise.lab.results import Run, RunFigures

_MAX_END_LABELS = 5
"""The maximum number of lines that have labels at their ends; more would overlap."""

_MAX_NAME = 40
"""The largest number of characters of a name."""

_SPREAD = "highest − lowest node (points)"
_SPREADS: tuple[tuple[str, Callable[[RunFigures], float]], ...] = (
    ("Peak hour", lambda run: run.peak_spread),
    ("Median of all hours", lambda run: run.median_spread),
)


_DASHES: tuple[str | tuple[int, tuple[float, ...]], ...] = ("solid", (0, (5, 1.5)), (0, (1.2, 1.2)))


def charts(comparison: Comparison, runs: Sequence[Run], width: int = WIDTH) -> list[Chart]:
    """All charts of a scenario. `runs` contains at least those of its cases; `width` is in pixels."""
    shown = next(run for run in runs if run.figures is comparison.shown.median)
    hourly = [(case, run) for case in comparison.cases for run in runs if run.figures is case.median]
    drawn: dict[str, Draw] = {
        "heat": lambda theme: _heat_map(comparison, shown, runs, theme),
        "spread": lambda theme: _by_hour(comparison, hourly, theme),
        "policies": lambda theme: _by_policy(comparison, theme),
    }
    return [chart(f"{name}-{comparison.scenario}", draw, width) for name, draw in drawn.items()]


def _about(comparison: Comparison) -> str:
    best = "best" if comparison.best is not None else "no valid case; shown"
    return f"{comparison.scenario}, {best}: {_short(comparison.headline_case.label)}"


def _heat_map(comparison: Comparison, run: Run, runs: Sequence[Run], theme: Theme) -> tuple[Figure, str]:
    """The heat maps before and after. Both have the nodes in the same order, so that a row is the same node."""
    case, figures = comparison.shown, run.figures
    spread_before = run.before.max(axis=0) - run.before.min(axis=0)
    stock_runs = (
        other.figures for other in runs if comparison.stock is not None and comparison.stock.is_of(other.figures)
    )
    stock = next((other for other in stock_runs if other.arrival_seed == figures.arrival_seed), None)
    before = float(np.median(spread_before)) if stock is None else stock.median_spread
    ends = [figures.median_spread] if case.stock else [before, figures.median_spread]
    title = f"Spread over all hours: {' → '.join(f'{end:.0f}' for end in ends)} points"
    about = f"{comparison.scenario}, {_short(case.label)}: {figures.nodes:,} nodes with {figures.pods:,} pods"
    if len(case.runs) > 1:
        about += f", arrival order {figures.arrival_seed}, the median of {len(case.runs)}"
    figure = new_figure(title, about, theme)
    order = np.argsort(run.before.mean(axis=1), kind="stable")
    sides = (
        ("Before", run.before, before, None if stock is None else stock.peak_spread),
        ("After", run.after, figures.median_spread, figures.peak_spread),
    )
    axes = figure.subplots(1, 2, sharey=True)
    for axis, (name, load, median, peak) in zip(axes, sides, strict=True):
        nodes, hours = load.shape
        image = axis.imshow(
            load[order],
            aspect="auto",
            origin="lower",
            cmap="viridis",
            vmin=0.0,
            vmax=100.0,
            extent=(0, hours, 0, nodes),
        )
        at_peak = "" if peak is None else f", {peak:.0f} at the peak hour"
        axis.set_title(f"{name}: spread {median:.0f}{at_peak}", loc="left", fontsize=13)
        _hours(axis, hours)
        axis.set_yticks([])
        axis.spines[:].set_visible(False)
    axes[0].set_ylabel("node, by its mean load before")
    above = max(float(run.before.max()), float(run.after.max())) > 100.0
    bar = figure.colorbar(image, ax=list(axes), label="CPU load of the node (%)", extend="max" if above else "neither")
    bar.outline.set_visible(False)
    return figure, title


def _by_hour(comparison: Comparison, hourly: Sequence[tuple[Case, Run]], theme: Theme) -> tuple[Figure, str]:
    """The spread by hour, without the descheduler on the left and with it on the right, with the same line styles."""
    ends = [run.spread for end in (comparison.stock, comparison.headline_case) for case, run in hourly if case is end]
    ranges = dict.fromkeys(f"{min(spread):.0f}–{max(spread):.0f}" for spread in ends)
    title = f"Hour by hour: {' → '.join(ranges)} points"
    figure = new_figure(title, _about(comparison), theme)
    styles = _styles(comparison, theme)
    sides = {
        descheduler: [(case, run.spread) for case, run in hourly if case.median.descheduler == descheduler]
        for descheduler in sorted({case.median.descheduler for case, _ in hourly})
    }
    axes = figure.subplots(1, len(sides), sharey=True, squeeze=False)[0]
    for axis, (descheduler, lines) in zip(axes, sides.items(), strict=True):
        for case, spread in lines:
            highlighted = case is comparison.best or case.stock
            weight = {"linewidth": 3.5, "zorder": 3} if highlighted else {"linewidth": 1.5, "zorder": 2}
            style = styles[case.policy] | weight | ({"color": theme.stock} if case.stock else {})
            axis.plot(np.arange(len(spread)) + 0.5, spread, label=case.policy, **style)
        _hours(axis, max(len(spread) for _, spread in lines))
        axis.grid(axis="y")
        axis.tick_params(axis="y", length=0)
        axis.spines["left"].set_visible(False)
        if len(sides) > 1:
            axis.set_title(f"{'With' if descheduler else 'Without'} the descheduler", loc="left", fontsize=13)
    axes[0].set_ylim(bottom=0.0)
    axes[0].set_ylabel(_SPREAD)
    if len(styles) > _MAX_END_LABELS:
        _legend(axes, list(styles))
        return figure, title
    for axis, lines in zip(axes, sides.values(), strict=True):
        _name_ends(axis, [(case.policy, spread[-1]) for case, spread in lines], styles)
    return figure, title


def _by_policy(comparison: Comparison, theme: Theme) -> tuple[Figure, str]:
    title = f"Spread at the peak hour: {comparison.change(lambda run: run.peak_spread)} points"
    about = _about(comparison)
    if len({case.median.descheduler for case in comparison.cases}) > 1:
        about += "   ○ without   ● with the descheduler"
    if any(len(case.runs) > 1 for case in comparison.cases):
        about += "   ▬ all arrival orders"
    figure = new_figure(title, about, theme)
    policies = list(dict.fromkeys(case.policy for case in comparison.cases))[::-1]
    axes = figure.subplots(1, len(_SPREADS), sharey=True, sharex=True)
    for axis, (name, value) in zip(axes, _SPREADS, strict=True):
        if comparison.stock is not None:
            axis.axvline(value(comparison.stock.median), color=theme.stock, linewidth=1, linestyle=(0, (3, 3)))
        for row, policy in enumerate(policies):
            cases = [case for case in comparison.cases if case.policy == policy]
            _dots(axis, row, cases, value, comparison, theme)
        axis.set_title(name, loc="left", fontsize=13)
        axis.set_xlabel(_SPREAD)
        axis.set_ylim(-0.6, len(policies) - 0.4)
        axis.spines[:].set_visible(False)
        axis.tick_params(length=0)
        axis.grid(axis="x")
    highest = max(high for case in comparison.cases for _, value in _SPREADS for high in case.range(value))
    axes[0].set_xlim(0.0, 1.12 * max(highest, 1.0))  # leaves space for a number beside the highest value
    axes[0].set_yticks(range(len(policies)), [_short(policy) for policy in policies])
    for policy, label in zip(policies, axes[0].get_yticklabels(), strict=True):
        if comparison.best is not None and policy == comparison.best.policy:
            label.set(color=theme.best, fontweight="bold")
    return figure, title


def _dots(
    axis: Axes,
    row: int,
    cases: Sequence[Case],
    value: Callable[[RunFigures], float],
    comparison: Comparison,
    theme: Theme,
) -> None:
    """The one or two dots of a policy, with their numbers on the outer sides."""
    lower = min(cases, key=lambda case: value(case.median))
    axis.plot([value(case.median) for case in cases], [row] * len(cases), color=theme.line, linewidth=2, zorder=2)
    for case in cases:
        position, (low, high), best = value(case.median), case.range(value), case is comparison.best
        color = theme.best if best else theme.stock if case.stock else theme.soft
        axis.plot([low, high], [row, row], color=color, alpha=0.3, linewidth=6, solid_capstyle="round")
        inside = color if case.median.descheduler else theme.paper
        axis.plot(position, row, "o", color=color, markerfacecolor=inside, ms=9, markeredgewidth=1.8, zorder=3)
        on_the_left = len(cases) > 1 and case is lower
        axis.annotate(
            f"{position:.0f}",
            (low if on_the_left else high, row),
            xytext=(-9 if on_the_left else 9, 0),
            textcoords="offset points",
            ha="right" if on_the_left else "left",
            va="center",
            fontsize=11,
            color=theme.best if best else theme.soft,
            fontweight="bold" if best else "normal",
            bbox={"facecolor": theme.paper, "edgecolor": "none", "pad": 0.5},
        )


def _styles(comparison: Comparison, theme: Theme) -> dict[str, dict[str, Any]]:
    """The line style of each policy, in the order of the table."""
    styles: dict[str, dict[str, Any]] = {}
    others = ({"color": color, "linestyle": dash} for dash in itertools.cycle(_DASHES) for color in theme.others)
    for case in comparison.cases:
        if comparison.best is not None and case.policy == comparison.best.policy:
            styles[case.policy] = {"color": theme.best}
        elif case.stock:
            styles[case.policy] = {"color": theme.stock}
        elif case.reference:
            styles[case.policy] = {"color": theme.ink, "linestyle": (0, (6, 2, 1, 2))}
        elif case.policy not in styles:
            styles[case.policy] = next(others)
    return styles


def _legend(axes: Sequence[Axes], policies: Sequence[str]) -> None:
    """Add the legend to the right of the last axes. It shows each line in its largest width."""
    by_width = sorted((line for axis in axes for line in axis.get_lines()), key=lambda line: line.get_linewidth())
    widest = {line.get_label(): line for line in by_width}
    axes[-1].legend(
        [widest[policy] for policy in policies],
        [_short(policy) for policy in policies],
        loc="upper left",
        bbox_to_anchor=(1.02, 1.0),
        frameon=False,
        fontsize=11,
    )


def _name_ends(axis: Axes, ends: Sequence[tuple[str, float]], styles: dict[str, dict[str, Any]]) -> None:
    """Write the names at the ends of the lines, moved up where they would overlap."""
    gap = 0.055 * max(axis.get_ylim()[1], 1.0)
    last = -gap
    for policy, end in sorted(ends, key=lambda pair: pair[1]):
        last = max(end, last + gap)
        axis.annotate(
            _short(policy),
            (axis.get_xlim()[1], last),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=11,
            color=styles[policy]["color"],
            annotation_clip=False,
        )


def _hours(axis: Axes, hours: int) -> None:
    """Set a tick every six hours for up to two days, otherwise ticks at whole days."""
    step, name = (6, "hour") if hours <= 48 else (24 * max(1, hours // 24 // 10), "day")
    ticks = range(0, hours + 1, step)
    axis.set_xlim(0, hours)
    axis.set_xticks(ticks, [str(tick if name == "hour" else tick // 24) for tick in ticks])
    axis.set_xlabel(name)


def _short(name: str) -> str:
    return name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}…"
