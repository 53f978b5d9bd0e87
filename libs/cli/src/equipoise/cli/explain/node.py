"""The command `equipoise explain node`.

Reads the messages about a node that the bus retains, and the scores that a scorer computes for an example pod.
"""

from contextlib import aclosing
from typing import TypeVar

import click
import msgspec
from rich.console import Console
from rich.text import Text

from equipoise.cli.bus.cluster import BusCluster, bus_cluster
from equipoise.cli.bus.messages import retained_messages
from equipoise.cli.cluster_now.pods import pods_table
from equipoise.cli.effective.reading import read_effective
from equipoise.cli.effective.running import running_configurations
from equipoise.cli.exit_codes import CommandFailed
from equipoise.cli.explain.colocation import node_parts, read_node_bands
from equipoise.cli.explain.node_load import MAX_PODS, ExplainedLoad, headline, lines, node_load
from equipoise.cli.explain.scores import request_explanation
from equipoise.cli.explain.scores import show as show_scores
from equipoise.cli.options import ClusterOptions, Output
from equipoise.cli.reclaimed.nodes import NodeBands
from equipoise.cli.terminal import labelled, print_result
from equipoise.contracts.bus import subjects
from equipoise.contracts.messages.descheduling import DescheduleDecision
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.score import ExplainRequest, Explanation
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.runtime.bus import BusError
from equipoise.runtime.configuration import Logging, Nats
from equipoise.runtime.process.clock import Clock, SystemClock
from equipoise.runtime.process.logging import configure_logging

M = TypeVar("M", bound=msgspec.Struct)

RECENT = 600.0
"""Seconds before now whose evaluations are read to find the last one. Not more, because each contains all nodes."""

EXAMPLE = "Example, not a pod of this cluster: how a pod without requests would be scored here"


class ShownNode(msgspec.Struct, frozen=True, kw_only=True):
    """The load of a node, and the scores of an example pod."""

    cluster: BusCluster
    load: ExplainedLoad
    example: Explanation | None = None
    example_problem: str = ""
    """Why there is no example."""

    reclaimed: NodeBands | msgspec.UnsetType = msgspec.UNSET
    """The bands of the node, if a reclaimer evaluates it."""


async def run_explain_node(node: str, server: Nats, options: ClusterOptions, *, output: Output) -> None:
    """Run the command. Raises BusError, and CommandFailed if nothing is known of the node."""
    configure_logging(Logging(level="error"), "explain")
    clock = SystemClock()
    cluster = bus_cluster(options, server)
    load = await read_node_load(node, server, clock)
    example, problem = await _example(node, server)
    if example is None and load.sampled_at is None and not load.pods:
        raise CommandFailed(f"nothing is known of node {node}: {load.problem}; {problem}")
    shown = ShownNode(
        cluster=cluster,
        load=load,
        example=example,
        example_problem=problem,
        reclaimed=await _reclaimed(node, server, clock),
    )

    def show_all(shown: ShownNode, to: Console) -> None:
        to.print(Text(str(shown.cluster)))
        show_load(shown.load, to, clock.now(), wide=output == "wide")
        to.print()
        if shown.example is None:
            to.print(Text(f"no example of a score: {shown.example_problem}", style="yellow"))
        else:
            to.print(Text(EXAMPLE, style="bold"))
            show_scores(shown.example, to, node, wide=output == "wide")
        if shown.reclaimed is not msgspec.UNSET:
            to.print()
            for part in node_parts(shown.reclaimed, clock.now()):
                to.print(part)

    print_result(shown, show_all, output=output)


async def read_node_load(node: str, server: Nats, clock: Clock) -> ExplainedLoad:
    """The load of a node according to the latest messages on the bus. Raises BusError."""
    utilization = await _last(server, subjects.node_utilization(node), NodeUtilization, 0.0, clock)
    placement = await _last(server, subjects.node_placement(node), NodePlacement, 0.0, clock)
    decisions = await _all(
        server, subjects.decision("descheduler", "*"), DescheduleDecision, clock.now() - RECENT, clock
    )
    try:
        messages = await read_effective(server, clock)
    except BusError as error:
        click.echo(f"what services run with is not known: {error}", err=True)
        messages = []
    now = clock.now()
    deschedulers = running_configurations(messages, "descheduler", now)
    return node_load(node, utilization, placement, decisions, deschedulers, now)


async def _all(server: Nats, pattern: str, kind: type[M], since: float, clock: Clock) -> list[M]:
    async with aclosing(retained_messages(server, pattern, since=since, clock=clock)) as messages:
        return [message async for _, message in messages if isinstance(message, kind)]


async def _last(server: Nats, pattern: str, kind: type[M], since: float, clock: Clock) -> M | None:
    messages = await _all(server, pattern, kind, since, clock)
    return messages[-1] if messages else None


async def _example(node: str, server: Nats) -> tuple[Explanation | None, str]:
    """The scores of an example pod, or why there are none. The load of the node is known even without a scorer."""
    try:
        explanation = await request_explanation(server, ExplainRequest(node=node))
    except BusError as error:
        return None, str(error)
    return (None, explanation.problem) if explanation.problem else (explanation, "")


async def _reclaimed(node: str, server: Nats, clock: Clock) -> NodeBands | msgspec.UnsetType:
    """The reclaimed resources of the node. Unset without co-location, or if they are unknown."""
    try:
        return await read_node_bands(server, node, clock) or msgspec.UNSET
    except BusError as error:
        click.echo(f"reclaimed resources are unknown: {error}", err=True)
        return msgspec.UNSET


LABEL_WIDTH = 12


def show_load(load: ExplainedLoad, to: Console, now: float, *, wide: bool) -> None:
    """Print why the node is hot or not, and its pods by usage."""
    to.print(Text.assemble((load.node, "bold"), ": ", (headline(load), "bold red" if load.over else "")))
    for label, text in lines(load, now):
        to.print(labelled(Text(label, "dim"), Text(text), LABEL_WIDTH))
    if load.pods:
        left_out = 0 if wide else len(load.pods) - MAX_PODS
        more = f" (first {MAX_PODS} of {len(load.pods)}, -o wide has all)" if left_out > 0 else ""
        to.print()
        to.print(Text(f"Pods by usage{more}", style="bold"))
        to.print(pods_table(load.pods if wide else load.pods[:MAX_PODS], of_one_node=True, wide=wide))
