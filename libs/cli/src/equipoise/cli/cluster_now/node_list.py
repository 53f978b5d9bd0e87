"""Reads the cluster once, or again and again, and prints its nodes."""

from dataclasses import replace
from functools import partial

import click
import msgspec
from rich.console import Console
from rich.text import Text

from equipoise.cli.cluster_now.nodes import (
    NodeNow,
    counted,
    known_text,
    node_cells,
    nodes_now,
    spread_text,
)
from equipoise.cli.cluster_now.options import NowOptions, reading
from equipoise.cli.cluster_now.reading import evaluation_settings, read_cluster
from equipoise.cli.cluster_now.spread import Spread, spread_of
from equipoise.cli.exit_codes import CommandFailed
from equipoise.cli.kubeconfig import ClusterName
from equipoise.cli.options import Output
from equipoise.cli.terminal import RESOURCES, amount, day_and_time, duration, print_result, table
from equipoise.descheduler.state.cluster_builder import ClusterBuilder
from equipoise.runtime.kubernetes.client import KubeError
from equipoise.runtime.process.clock import SystemClock


class NodeList(msgspec.Struct, frozen=True, kw_only=True):
    """All nodes, the most loaded first. Loads 0..1."""

    cluster: ClusterName
    at: float
    window: str
    spread: Spread
    nodes: list[NodeNow]


async def run_nodes(options: NowOptions, *, output: Output, watch: float | None) -> None:
    """`watch`: seconds between two readings, without end.

    Raises CommandFailed, with what to do, if the first reading fails; of later ones only the error is printed.
    """
    found, profile, url = await read_nodes(options, None)
    options = replace(options, prometheus_url=url)
    _print(found, output, again=watch is not None)
    clock = SystemClock()
    while watch is not None:
        await clock.sleep(watch)
        try:
            found, _, _ = await read_nodes(options, profile)
        except (CommandFailed, KubeError) as error:
            click.echo(f"not measured: {error.message}", err=True)
        else:
            _print(found, output, again=watch is not None)


async def read_nodes(options: NowOptions, profile: str | None) -> tuple[NodeList, str, str]:
    """The nodes, and the profile and the URL with which they were measured."""
    async with reading(options, profile) as sources:
        settings, prometheus = evaluation_settings(sources.settings), sources.settings.collector.prometheus
        shortest = settings.load.shortest
        now = await read_cluster(sources)
        view = ClusterBuilder(now.snapshot, settings).cluster()
        nodes = nodes_now(view.nodes, now.placements, now.unknown, now.not_expected, shortest.name)
        spread = spread_of([node.load for node in counted(nodes)])
        found = NodeList(
            cluster=options.cluster_name, at=now.snapshot.now, window=shortest.name, spread=spread, nodes=nodes
        )
        return found, prometheus.profile, prometheus.shown_url


def _print(found: NodeList, output: Output, *, again: bool) -> None:
    """A list per line in JSON, and a document per list in YAML."""
    several = again and output in ("text", "wide")
    if several:
        click.clear()
    print_result(found, partial(show, wide=output == "wide"), output=output, watched=again)
    if several:
        print(flush=True)


def show(found: NodeList, to: Console, *, wide: bool) -> None:
    """The cluster, how uneven its nodes are, and a row per node."""
    to.print(Text(f"{found.cluster}, mean of the last {found.window}, at {day_and_time(found.at)}"))
    for line in spread_text(found.spread):
        to.print(Text(line))
    unknown = any(node.unknown for node in found.nodes)
    to.print(Text(known_text(found.nodes), style="yellow" if unknown else ""))
    to.print()
    columns = ["node", "cpu load>", "cpu requested>", "memory load>", "memory requested>", "pods>"]
    if wide:
        columns += ["cores>", "of>", "GiB>", "of>", "sample age>"]
    made = table(*columns, "note")
    for node in found.nodes:
        cells = [*node_cells(node), *(_wide_cells(node, found.at) if wide else ())]
        made.add_row(*cells, _note(node))
    to.print(made)


def _note(node: NodeNow) -> str:
    if node.unknown:
        return f"unknown: {node.unknown}"
    return node.set_apart or (f"no target: {node.no_target}" if node.no_target else "")


def _wide_cells(node: NodeNow, now: float) -> list[str]:
    age = "" if node.sampled_at is None else duration(max(0.0, now - node.sampled_at))
    amounts = (amount(each, name, digits=1) for name in RESOURCES for each in (node.usage, node.allocatable))
    return [*amounts, age]
