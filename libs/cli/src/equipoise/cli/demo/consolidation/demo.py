"""`equipoise demo --consolidate`: a cluster of Karpenter's nodes, which needs fewer of them at its end."""

import time

import msgspec

from equipoise.cli.demo.consolidation.figures import HOT, ConsolidationFigures
from equipoise.cli.demo.consolidation.fleet import INSTANCE_TYPE, fleet
from equipoise.cli.demo.consolidation.run import Participant, UntilIdle, run_participant
from equipoise.cli.demo.consolidation.settings import CONSOLIDATION
from equipoise.cli.demo.live_view import Screen
from equipoise.cli.terminal import count
from equipoise.testbed.karpenter import Karpenter

NODES = 12
COURSE = UntilIdle(step_seconds=4, idle_seconds=75.0, longest_seconds=200.0)
"""The day that is measured takes 384 s. A node whose emptying was ended is tried again after four hours, which are 64 s
here."""

HOURS_PER_MONTH = 730


class ConsolidationDemoResult(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a run."""

    nodes_before: int
    nodes_after: int
    nodes_by_requests: int
    """The lower bound of the number of nodes that the requests of the pods set."""

    saved_per_month: float
    """The price of the nodes that were removed, by that of the instance type."""

    evictions: int
    """The evictions of the whole run, those included that relieved hot nodes before."""

    seconds_with_fewer_ready: float
    """Seconds in which Services had fewer ready endpoints than replicas, summed."""

    pending_pods: int
    """Pods for which kube-scheduler found no node at first."""

    hot_node_hours_share: float | None
    """The share of the node-hours with a load above 80 %, from the first node on that was emptied; None if no node
    was."""

    hottest: float | None
    """The highest load of a node in this time, in percent."""

    seconds: float
    """The real time of the whole run."""

    def encoded(self) -> str:
        """One JSON object on one line."""
        return msgspec.json.encode(self).decode()


async def run_consolidation_demo(karpenter: Karpenter, screen: Screen, *, seed: int) -> ConsolidationDemoResult:
    """Runs the demo. Raises RuntimeError, and the errors of a cluster or service that does not start."""
    began, trace = time.monotonic(), fleet(seed, NODES)
    factor = trace.seconds_per_step / COURSE.step_seconds
    screen.print(
        f"{NODES} nodes with {INSTANCE_TYPE.cpu_milli // 1000} cores, made by Karpenter, which may remove empty ones. "
        f"Time is compressed {factor:g} times, except for Karpenter's"
    )
    screen.print("the configuration is the default one, except (durations in the time of the day):")
    for difference in CONSOLIDATION:
        screen.print(f"  {difference.settings}: {difference.reason}")
    screen.print("the first day is measured, and nodes above their threshold are relieved; then nodes are emptied")
    participant = Participant(name="Equipoise beside Karpenter", policy="WhenEmpty", settings=CONSOLIDATION)
    found = await run_participant(participant, trace, karpenter, COURSE, seed=seed, report=screen.print)
    result = result_of(found, time.monotonic() - began)
    screen.print(consolidation_sentence(result))
    return result


def result_of(found: ConsolidationFigures, seconds: float) -> ConsolidationDemoResult:
    saved = found.nodes_before - found.nodes_after
    return ConsolidationDemoResult(
        nodes_before=found.nodes_before,
        nodes_after=found.nodes_after,
        nodes_by_requests=found.fewest_nodes,
        saved_per_month=round(saved * INSTANCE_TYPE.price * HOURS_PER_MONTH, 2),
        evictions=found.evictions_before + found.evictions,
        seconds_with_fewer_ready=round(found.missing_seconds, 3),
        pending_pods=found.pending_pods,
        hot_node_hours_share=round(found.hot_node_hours / found.node_hours, 4) if found.node_hours else None,
        hottest=None if found.hottest is None else round(found.hottest, 1),
        seconds=round(seconds, 1),
    )


def consolidation_sentence(result: ConsolidationDemoResult) -> str:
    """What the demo prints at its end."""
    loads = "no node was emptied"
    if result.hottest is not None and result.hot_node_hours_share is not None:
        loads = f"no more than {result.hottest:.0f} % of a node used"
        loads = f"{loads}, {result.hot_node_hours_share:.1%} of the node-hours above {HOT:.0%}"
    return (
        f"{count(result.nodes_before, 'node')} → {result.nodes_after} ({result.saved_per_month:,.2f} a month at "
        f"{INSTANCE_TYPE.price:.2f} per hour; the requests of the pods need at least {result.nodes_by_requests}): "
        f"{count(result.evictions, 'pod')} moved, {result.seconds_with_fewer_ready:g} s with fewer ready endpoints "
        f"than replicas, {count(result.pending_pods, 'pod')} waited for a node, {loads}"
    )
