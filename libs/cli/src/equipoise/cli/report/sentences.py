"""The sentences and tables of a report, the same on a terminal and on a page."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from equipoise.cli.cluster_now.waiting import contention_limits
from equipoise.cli.cluster_now.waiting import sentences as waiting_sentences
from equipoise.cli.report.figures import MIN_REGRET, PlacementReport
from equipoise.cli.terminal import RESOURCES, amounts, count, duration, percent
from equipoise.contracts.messages.values.resources import Resources

_NOTES = (
    "Regret is the score of the best node minus the score of the chosen node, in points of 100, with all other pods "
    "where they are. The scorer does not know selectors, affinities, tolerations and volumes: some pods could not have "
    "been placed elsewhere. Nodes with taints count only if they were chosen; DaemonSet and static pods do not count.",
    "Avoidable load: of pods that would not have been placed on a node above its high threshold, but on a node that "
    "stays below its own thresholds, the smaller of the pod's load and the excess of its node (1 point is 1 % of that "
    "node). For one hour the pod then counts on the better node, so that no excess counts twice.",
)

_HINT_NOTE = (
    "What placement hints won is not known, because it is not known where kube-scheduler would have placed the same "
    "pods without them. Pods that were created without a hint can be of other workloads. `equipoise lab whatif "
    "--placement` replays a recorded period with hints, and without."
)


def notes(report: PlacementReport) -> tuple[str, ...]:
    """The notes below the tables."""
    return (*_NOTES, _HINT_NOTE) if report.hinted else _NOTES


def placements(report: PlacementReport) -> str:
    if not report.placements:
        return "No pods were placed."
    text = f"{_pods(report.placements)} placed, {report.rated} of them rated"
    if report.rated:
        text += (
            f"; {report.elsewhere} ({report.elsewhere / report.rated:.0%}) would have been placed elsewhere, on a "
            f"node with a score at least {MIN_REGRET:g} points higher"
        )
    if report.skipped:
        text += f". {report.skipped} more came too fast to be rated (scorer.advice.perSecond)"
    return text + "."


def regret(report: PlacementReport) -> str:
    if report.regret_median is None or report.regret_p90 is None:
        return "Regret: unknown."
    return f"Regret: median {report.regret_median:.1f}, 90th percentile {report.regret_p90:.1f} points of 100."


def idle(report: PlacementReport) -> str:
    """The sentence about idle capacity; empty without a reclaimer."""
    capacity = report.idle
    if capacity is msgspec.UNSET:
        return ""
    reasons = dict.fromkeys(capacity.not_counted.values())
    unknown = f"unknown of {count(len(capacity.not_counted), 'node')}: {'; '.join(reasons)}" if reasons else ""
    if not capacity.periods:
        return f"Idle capacity: {unknown}."
    periods = "; ".join(
        f"{amounts(period.mean)} for {period.hours} h (at least {amounts(period.lowest)})"
        for period in capacity.periods
    )
    return (
        f"Idle capacity, which could have been offered to co-located pods in the last 24 hours: {periods}. Mean of all "
        f"such periods, of {count(capacity.nodes, 'node')} with {amounts(capacity.capacity)}, below the reclaimer's "
        f"thresholds{f'; {unknown}' if unknown else ''}."
    )


def waiting(report: PlacementReport) -> str:
    """The sentences about nodes on which pods wait; empty if no pressure is known."""
    return "" if report.waiting is msgspec.UNSET else " ".join(waiting_sentences(report.waiting))


def next_level(report: PlacementReport) -> str:
    """The sentence about the level of trust that is advised; empty if none is."""
    return f"Level of moves: {report.next_level}" if report.next_level else ""


def hints(report: PlacementReport) -> str:
    """The sentence about placement hints; empty if no pods were placed."""
    unknown = report.with_hint("unknown")
    if not report.placements or unknown == report.placements:
        return "Placement hints: unknown whether pods were created with one." if unknown else ""
    known = report.placements - unknown
    text = f"Placement hints: {report.hinted} of {_pods(known)} {'was' if known == 1 else 'were'} created with one"
    if report.hinted:
        followed, avoided = report.with_hint("preferred"), report.with_hint("avoided")
        chance = "unknown" if report.hint_chance is None else f"{report.hint_chance:.0%}"
        text += (
            f"; {followed} of them ({followed / report.hinted:.0%}, by chance {chance}) were placed on a preferred "
            f"node, {avoided} on an avoided one"
        )
    if unknown:
        text += f". Of {unknown} more it is unknown"
    return f"{text}."


def avoidable(report: PlacementReport) -> str:
    if not report.avoidable.placements:
        return "No load above the thresholds was avoidable."
    points = (f"{amount:.1f} points of {name}" for name in RESOURCES if (amount := getattr(report.avoidable, name)))
    placed = _pods(report.avoidable.placements)
    return f"Avoidable on nodes above their thresholds: {' and '.join(points)}, of {placed}."


def spread(report: PlacementReport) -> str:
    if not report.observed:
        return "Spread: unknown; scorers report it every five minutes."
    apart, deviation = (_percentages(each) for each in (report.spread, report.deviation))
    period = duration(report.observed)
    return f"Mean over {period}: spread (highest − lowest node) {apart}; standard deviation {deviation}."


class ReportTable(NamedTuple):
    """The nodes or workloads with the highest values."""

    title: str
    color: Literal["yellow", "red"]
    columns: tuple[str, ...]
    rows: Sequence[tuple[tuple[str, ...], float]]
    """The cells of each row, and the length of its bar (0..1)."""


def tables(report: PlacementReport) -> Iterator[ReportTable]:
    """The tables of the report that have rows."""
    if report.hinted:
        yield _hint_table(report)
    for kind, sums in (("workload", report.workloads), ("node", report.nodes)):
        rows = [
            ((each.name, str(each.placements), str(each.elsewhere), f"{each.regret:.0f}"), each.regret / sums[0].regret)
            for each in sums
        ]
        if rows:
            columns = (kind, "placed", "elsewhere", "regret")
            yield ReportTable(f"{kind.capitalize()}s with the most regret", "yellow", columns, rows)
    above = [((each.node, duration(each.seconds), f"{each.share:.1%}"), each.share) for each in report.above_threshold]
    if above:
        high = [f"{name} {value:.0%}" for name in RESOURCES if (value := getattr(report.high, name)) is not None]
        waiting = report.waiting if report.waiting is not msgspec.UNSET and report.waiting.configured else None
        pressure = "" if waiting is None else f"; or pods waited {contention_limits(waiting.thresholds)}"
        left_out = "; without those that were only busy" if waiting is not None and waiting.required else ""
        title = f"Nodes above their high threshold ({', '.join(high) or 'none'}{pressure}{left_out})"
        yield ReportTable(title, "red", ("node", "for", "of the time"), above)


_HINT_GROUPS: Mapping[str, str] = {
    "preferred": "on a preferred node",
    "neither": "on another node",
    "avoided": "on an avoided node",
    "none": "created without a hint",
    "unknown": "unknown",
}


def _hint_table(report: PlacementReport) -> ReportTable:
    most = max(each.regret_median or 0.0 for each in report.hints)
    rows = [
        (
            (
                _HINT_GROUPS[each.node],
                str(each.placements),
                str(each.elsewhere) if each.rated else "?",
                "?" if each.regret_median is None else f"{each.regret_median:.1f}",
            ),
            (each.regret_median or 0.0) / most if most else 0.0,
        )
        for each in report.hints
    ]
    columns = ("placement hint", "placed", "elsewhere", "median regret")
    return ReportTable("Pods by placement hint", "yellow", columns, rows)


def _percentages(load: Resources) -> str:
    return ", ".join(f"{percent(getattr(load, name))} {name}" for name in RESOURCES)


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"
