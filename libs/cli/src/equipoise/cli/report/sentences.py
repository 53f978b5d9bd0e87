"""The sentences and tables of a report, the same on a terminal and on a page."""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from equipoise.cli.report.figures import MIN_REGRET, PlacementReport
from equipoise.cli.terminal import RESOURCES, duration, percent
from equipoise.contracts.messages.resources import Resources

NOTES = (
    "Regret is the score of the best node minus the score of the chosen node, in points of 100, with all other pods "
    "where they are. The scorer does not know selectors, affinities, tolerations and volumes: some pods could not have "
    "been placed elsewhere. Nodes with taints count only if they were chosen; DaemonSet and static pods do not count.",
    "Avoidable load: of pods that would not have been placed on a node above its high threshold, but on a node that "
    "stays below its own thresholds, the smaller of the pod's load and the excess of its node (1 point is 1 % of that "
    "node). For one hour the pod then counts on the better node, so that no excess counts twice.",
)


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


def avoidable(report: PlacementReport) -> str:
    if not report.avoidable.placements:
        return "No load above the thresholds was avoidable."
    amounts = (f"{amount:.1f} points of {name}" for name in RESOURCES if (amount := getattr(report.avoidable, name)))
    placed = _pods(report.avoidable.placements)
    return f"Avoidable on nodes above their thresholds: {' and '.join(amounts)}, of {placed}."


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
    """The cells of each, and the length of its bar (0..1)."""


def tables(report: PlacementReport) -> Iterator[ReportTable]:
    """The tables of the report that have rows."""
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
        title = f"Nodes above their high threshold ({', '.join(high) or 'none'})"
        yield ReportTable(title, "red", ("node", "for", "of the time"), above)


def _percentages(load: Resources) -> str:
    return ", ".join(f"{percent(getattr(load, name))} {name}" for name in RESOURCES)


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"
