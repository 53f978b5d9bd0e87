"""The list of nodes, and its text. Pure."""

import msgspec
from rich.console import Console
from rich.text import Text

from equipoise.cli.cluster_access.kubeconfig import ClusterName
from equipoise.cli.cluster_now.nodes import (
    NodeNow,
    counted,
    known_text,
    node_cells,
    nodes_now,
    spread_text,
)
from equipoise.cli.cluster_now.reading import ClusterNow
from equipoise.cli.cluster_now.spread import Spread, spread_of
from equipoise.cli.cluster_now.waiting import waiting_text
from equipoise.cli.terminal import RESOURCES, amount, day_and_time, duration, percent, table
from equipoise.descheduler.decisions.evaluation.snapshot import EvaluationSettings
from equipoise.descheduler.state.cluster_builder import ClusterBuilder


class NodeList(msgspec.Struct, frozen=True, kw_only=True):
    """All nodes, the most loaded first. Loads are shares (0..1) of a node."""

    cluster: ClusterName
    at: float
    window: str
    spread: Spread
    nodes: list[NodeNow]


def node_list(cluster: ClusterName, now: ClusterNow, settings: EvaluationSettings) -> NodeList:
    """The list of nodes, with their load in the shortest window."""
    shortest = settings.load.shortest.name
    view = ClusterBuilder(now.snapshot, settings).cluster()
    nodes = nodes_now(view.nodes, now.placements, now.unknown, now.not_expected, shortest)
    spread = spread_of([node.load for node in counted(nodes)])
    return NodeList(cluster=cluster, at=now.snapshot.now, window=shortest, spread=spread, nodes=nodes)


def show(listed: NodeList, to: Console, *, wide: bool) -> None:
    """Print the cluster, how uneven its nodes are, and a row per node."""
    to.print(Text(f"{listed.cluster}, mean of the last {listed.window}, at {day_and_time(listed.at)}"))
    for line in spread_text(listed.spread):
        to.print(Text(line))
    unknown = any(node.unknown for node in listed.nodes)
    to.print(Text(known_text(listed.nodes), style="yellow" if unknown else ""))
    to.print()
    columns = ["node", "cpu load>", "cpu requested>", "memory load>", "memory requested>", "pods>"]
    further = sorted({name for node in listed.nodes for name in (*(node.load.further or {}), *node.unknown_resources)})
    columns += [f"{name} load>" for name in further]
    waits = any(waiting_text(node.pressure) for node in listed.nodes)
    columns += ["waits for"] if waits else []
    if wide:
        columns += ["cores>", "of>", "GiB>", "of>", "sample age>"]
    rows = table(*columns, "note")
    for node in listed.nodes:
        loads = [percent((node.load.further or {}).get(name)) for name in further]
        waiting = [waiting_text(node.pressure) or "?"] if waits else []
        cells = [*node_cells(node), *loads, *waiting, *(_wide_cells(node, listed.at) if wide else ())]
        rows.add_row(*cells, _note(node))
    to.print(rows)


def _note(node: NodeNow) -> str:
    if node.unknown:
        return f"unknown: {node.unknown}"
    return node.set_apart or (f"no target: {node.no_target}" if node.no_target else "")


def _wide_cells(node: NodeNow, now: float) -> list[str]:
    age = "" if node.sampled_at is None else duration(now - node.sampled_at)
    amounts = (amount(values, name, digits=1) for name in RESOURCES for values in (node.usage, node.allocatable))
    return [*amounts, age]
