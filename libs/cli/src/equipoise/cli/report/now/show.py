"""The text of `report`."""

import math
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from equipoise.cli.cluster_now.causes import UnevenWorkload
from equipoise.cli.cluster_now.nodes import RESOURCE_NAMES, node_cells, spread_text
from equipoise.cli.cluster_now.waiting import sentences
from equipoise.cli.report.now.figures import NowReport, Prospect
from equipoise.cli.report.now.next_steps import amount_text
from equipoise.cli.terminal import amounts, count, day_and_time, listed, percent, table
from equipoise.contracts.messages.values.resources import Resources

_ROUNDING = 1e-9
"""Rounding error of a share, in percent."""


BEFORE_CHANGES = (
    "Commands of kubectl change the cluster. Where Helm, Argo CD or a VerticalPodAutoscaler writes requests, change "
    "them there; a HorizontalPodAutoscaler by utilization compares with the request."
)


def show(report: NowReport, to: Console) -> None:
    """Print what is uneven, which workloads cause it, what the descheduler would change, what is unknown, and what to
    do.
    """
    detected = " (detected)" if report.profile_detected else ""
    to.print(Text(f"{report.cluster}: {count(report.nodes, 'node')}, {count(report.pods, 'pod')}"))
    to.print(Text(f"Prometheus {report.prometheus}, profile {report.profile}{detected}"))
    to.print(Text(f"Mean of the last {report.window}, at {day_and_time(report.at)}"))
    if report.detached:
        to.print(Text(f"Detached by moves without a gap: {listed(report.detached, 5)}"))
    _title(to, "What is uneven")
    for line in _uneven(report):
        to.print(Text(line))
    if report.hottest:
        to.print()
        to.print(_nodes(report))
    _title(to, "Which workloads make it so")
    _show_causes(report, to)
    if report.oversized:
        _title(to, "Which requests are many times the usage")
        _show_oversized(report, to)
    if report.waiting.known:
        _title(to, "Where pods wait")
        for sentence in sentences(report.waiting):
            to.print(Text(sentence))
    _title(to, "What would be won")
    _show_prospect(report, to)
    if report.unknown:
        _title(to, "What is not known")
        for unknown in report.unknown:
            to.print(Text.assemble((f"{unknown.what}: ", "yellow"), unknown.why))
            if unknown.fix:
                to.print(Text(f"  → {unknown.fix}"))
    _title(to, "What to do next")
    if any(step.changes_cluster for step in report.next):
        to.print(Text(BEFORE_CHANGES))
        to.print()
    for step in report.next:
        to.print(Text(step.command, style="bold"), soft_wrap=True)
        to.print(Text(f"  {step.purpose}"))


def _title(to: Console, title: str) -> None:
    to.print()
    to.print(Text(title, style="bold"))


def _uneven(report: NowReport) -> Iterator[str]:
    yield from spread_text(report.before)
    if report.hot:
        yield f"{count(report.hot, 'node')} hot: above a threshold of load or pressure."
    if report.set_apart:
        yield f"{count(report.set_apart, 'node')} not counted: control plane, virtual, cordoned or not Ready."


def _nodes(report: NowReport) -> object:
    rows = table("node", "cpu load>", "cpu requested>", "memory load>", "memory requested>", "pods>")
    for node in report.hottest:
        rows.add_row(*node_cells(node))
    if report.idlest and report.before.nodes > len(report.hottest) + len(report.idlest):
        rows.add_row("…")
    for node in report.idlest:
        rows.add_row(*node_cells(node))
    return rows


def _show_causes(report: NowReport, to: Console) -> None:
    if not report.causes:
        why = "the nodes are even" if report.pods_measured else "the usage of no pod is known"
        to.print(Text(f"None: {why}."))
        return
    name = RESOURCE_NAMES[report.resource]
    to.print(Text(f"Share of what raises nodes above the mean {name} load; all workloads and the system are 100 %:"))
    rows = table("workload", "share>", "usage of a pod>", "request>", "reason")
    for cause in report.causes:
        request = "none" if cause.request is None else amount_text(cause.request, cause.resource)
        rows.add_row(
            str(cause.workload),
            f"{math.floor(100 * cause.share + _ROUNDING)}%",  # rounded down: the sum is never above 100%
            amount_text(cause.usage, cause.resource),
            request,
            reason(cause),
        )
    to.print(rows)
    if too_low := ", ".join(str(cause.workload) for cause in report.causes if cause.reason != "placement"):
        advice = f"Raise the {name} request of {too_low} to about the usage: new pods are then placed by what they use."
        to.print(Text(advice))


def _show_oversized(report: NowReport, to: Console) -> None:
    to.print(Text("Nobody else gets what they request. Highest usage: of a pod now, or of an hour of the past day."))
    rows = table("workload", "pods>", "request of a pod>", "highest usage>", "reserved in vain>")
    for workload in report.oversized:
        values = (workload.request, workload.highest, workload.reserved)
        cells = (amount_text(value, workload.resource) for value in values)
        rows.add_row(str(workload.workload), str(workload.pods), *cells)
    to.print(rows)


def reason(cause: UnevenWorkload) -> str:
    """Why the workload makes nodes uneven."""
    name, pods_above = RESOURCE_NAMES[cause.resource], _pods_above(cause)
    if cause.request is None:
        return f"it requests no {name}, so the scheduler counts it as nothing; {pods_above}"
    times = cause.usage / cause.request
    if cause.reason == "request too low":
        return f"it uses {times:.1f} times its {name} request, by which the scheduler places it; {pods_above}"
    return f"it uses {times:.0%} of its {name} request; {pods_above}"


def _pods_above(cause: UnevenWorkload) -> str:
    if cause.pods == 1:
        return "its pod is on a node above the mean"
    return f"{cause.pods_above} of its {cause.pods} pods are on {count(cause.nodes_above, 'node')} above the mean"


def _show_prospect(report: NowReport, to: Console) -> None:
    prospect = report.prospect
    if prospect.problem:
        to.print(Text(f"Not known: {prospect.problem}."))
        return
    if not prospect.moves:
        to.print(Text("The descheduler would move no pod."))
        for strategy, why in prospect.why.items():
            to.print(Text(f"{strategy}: {why}", style="yellow"))
    else:
        for line in _change(report, prospect):
            to.print(Text(line))
        to.print()
        rows = table("pod", "from", "to", "usage", "reason")
        for move in prospect.moves:
            rows.add_row(move.pod_name, move.node, move.target, amounts(move.expected_reduction), move.reason)
        to.print(rows)


def _change(report: NowReport, prospect: Prospect) -> Iterator[str]:
    name = RESOURCE_NAMES[report.resource]
    after = getattr(prospect.after.spread if prospect.after else Resources(), report.resource)
    before = getattr(report.before.spread, report.resource)
    hottest = getattr(report.hottest[0].load, report.resource) if report.hottest else None
    if before is not None and after is not None:
        yield (
            f"{name} spread {100 * before:.1f} → {100 * after:.1f} points, hottest node {percent(hottest)} → "
            f"{percent(prospect.hottest_after)}, by moving {count(prospect.all_moves, 'pod')} in all (an estimate)."
        )
    yield (
        f"First {count(len(prospect.moves), 'pod')} would move, once a node has been above its threshold for long "
        "enough. The better placement of new pods is not included."
    )
