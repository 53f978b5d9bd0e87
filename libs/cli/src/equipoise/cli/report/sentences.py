"""What a report says in words, alike on a terminal and on a page."""

from equipoise.cli.report.figures import LEAST_REGRET, Report
from equipoise.contracts.messages.resources import Resources

LIMITS = (
    "A regret is the points of the policy by which the best node was better, with every other pod where it was. The "
    "scorer does not know selectors, affinities, tolerations and volumes: some pods could not have gone elsewhere. "
    "Nodes with taints are looked at only when they were chosen; DaemonSet and static pods are left out."
)

SAVED = (
    "Counted are placements that would have gone elsewhere, from a node above its high mark to one that would have "
    "stayed below all of its own: of what the pod brought, as much as the node was above the mark (1 point is 1 % of "
    "that node). A pod once counted is taken to be on the better node for an hour, so that no excess counts twice."
)


def placements(report: Report) -> str:
    if not report.placements:
        return "No pod was placed."
    text = f"{_pods(report.placements)} placed, {report.judged} of them judged"
    if report.judged:
        text += (
            f"; {report.elsewhere} ({report.elsewhere / report.judged:.0%}) would have gone elsewhere, "
            f"where at least {LEAST_REGRET:g} points are better"
        )
    if report.skipped:
        text += f". {report.skipped} more came too fast to be judged (scorer.advice.perSecond)"
    return text + "."


def regret(report: Report) -> str:
    if report.regret_median is None or report.regret_p90 is None:
        return "Nothing can be said of regret."
    return f"Regret: median {report.regret_median:.1f}, 90 % at most {report.regret_p90:.1f} points of 100."


def saved(report: Report) -> str:
    if not report.saved.placements:
        return "It would have kept no load off nodes above their mark."
    amounts = [
        f"{amount:.1f} points of {name}"
        for name, amount in (("cpu", report.saved.cpu), ("memory", report.saved.memory))
        if amount
    ]
    counted = _pods(report.saved.placements)
    return f"{counted} would have kept {' and '.join(amounts)} off nodes that were above their mark."


def level(report: Report) -> str:
    """How level the fleet was."""
    if not report.seen:
        return "The fleet was not seen long enough: its nodes are told of every five minutes."
    return (
        f"Seen for {length(report.seen)}: highest and lowest node were on average {percent(report.spread)} apart, "
        f"standard deviation {percent(report.deviation)}."
    )


def marks(high: Resources) -> str:
    found = [f"{name} {value:.0%}" for name, value in (("cpu", high.cpu), ("memory", high.memory)) if value is not None]
    return ", ".join(found) or "none"


def percent(amount: Resources) -> str:
    return ", ".join(
        f"{'?' if value is None else f'{value:.1%}'} {name}"
        for name, value in (("cpu", amount.cpu), ("memory", amount.memory))
    )


def length(seconds: float) -> str:
    """As people say it: 47 s, 12 min, 3.5 h, 6.9 d."""
    for unit, size in (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"
