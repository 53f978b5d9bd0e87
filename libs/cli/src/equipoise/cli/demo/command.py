"""`equipoise demo`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from equipoise.cli.demo.configuration import Placement
    from equipoise.cli.demo.live_view import Screen

REAL_NODES = 2


@click.command()
@click.option(
    "--trace",
    "trace_folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Replay 40 nodes of this trace (docs/traces.md) instead of the generated example.",
)
@click.option("--seed", default=1, show_default=True, help="Selects the generated example or the nodes of the trace.")
@click.option(
    "--placement",
    type=click.Choice(["extender", "hints"]),
    default="extender",
    show_default=True,
    help="How scores reach kube-scheduler: by its extender, or by placement hints, for which it is not configured.",
)
@click.option("--colocation", is_flag=True, help="Run batch pods on what the other pods request and do not use.")
@click.option("--surge", is_flag=True, help="Move pods without a gap, single replicas and blocked budgets included.")
@click.option("--rebalance", is_flag=True, help="Ten empty nodes join, and a campaign levels: its course and its end.")
@click.option("--consolidate", is_flag=True, help="Empty nodes that Karpenter has made, and let it remove them.")
@click.option(
    "--real", is_flag=True, help="Two nodes with a kubelet and containers, and the chart. Needs root, in a clone."
)
@click.option("--keep", is_flag=True, help="Keep everything running at the end, and print how to connect.")
def demo(
    trace_folder: Path | None,
    seed: int,
    placement: "Placement",
    colocation: bool,
    surge: bool,
    rebalance: bool,
    consolidate: bool,
    real: bool,
    keep: bool,
) -> None:
    """Run Equipoise on a throwaway real cluster and measure the result.

    The last line of the output is one JSON object.
    """
    import asyncio

    from equipoise.cli.demo.figures import DemoResult
    from equipoise.cli.demo.live_view import Screen
    from equipoise.cli.demo.options import DemoOptions
    from equipoise.cli.demo.rebalance.figures import RebalanceResult
    from equipoise.cli.demo.rebalance.run import run_rebalance_demo
    from equipoise.cli.demo.run import run_demo
    from equipoise.cli.exit_codes import cancel_on_signals, exit_on_signals
    from equipoise.cli.terminal import VisibleConsole
    from equipoise.runtime.configuration import Logging
    from equipoise.runtime.process.logging import configure_logging
    from equipoise.testbed.binaries.build import WITHOUT_METRICS, build

    configure_logging(Logging(format="console", level="warning"), "demo")
    screen = Screen(VisibleConsole(stderr=True))
    exit_on_signals()
    if real:
        _real(screen, keep=keep)
        return
    if rebalance and (colocation or trace_folder is not None):
        raise click.UsageError("--rebalance uses the generated example, without batch pods")
    if consolidate and (colocation or surge or rebalance or keep or trace_folder is not None):
        raise click.UsageError("--consolidate has nodes and pods of its own: only --seed goes with it")
    if consolidate:
        _consolidate(screen, seed)
        return
    options = DemoOptions(
        trace_folder=trace_folder,
        seed=seed,
        placement=placement,
        colocation=colocation,
        surge=surge or rebalance,
        rebalance=rebalance,
        keep=keep,
    )

    async def run() -> DemoResult | RebalanceResult:
        cancel_on_signals()
        return await (run_rebalance_demo if rebalance else run_demo)(options, screen)

    build(WITHOUT_METRICS)  # before the event loop starts, which would wait for the thread of a build at Ctrl-C
    click.echo(asyncio.run(run()).encoded())


def _consolidate(screen: "Screen", seed: int) -> None:
    """Builds everything before the event loop starts, as above."""
    import asyncio

    from equipoise.cli.demo.consolidation.demo import ConsolidationDemoResult, run_consolidation_demo
    from equipoise.cli.exit_codes import cancel_on_signals
    from equipoise.testbed.binaries.build import build
    from equipoise.testbed.karpenter import build_karpenter

    build()
    karpenter = build_karpenter()

    async def run() -> ConsolidationDemoResult:
        cancel_on_signals()
        return await run_consolidation_demo(karpenter, screen, seed=seed)

    click.echo(asyncio.run(run()).encoded())


def _real(screen: "Screen", *, keep: bool) -> None:
    """Creates the cluster before other threads start, because it moves this thread into a network namespace."""
    import asyncio

    from equipoise.cli.demo.real.run import CHART, RealDemoResult, run_real_demo
    from equipoise.cli.exit_codes import CommandFailed, cancel_on_signals
    from equipoise.testbed.real_nodes.cluster import RealCluster, prepare

    if not (CHART / "Chart.yaml").exists():
        raise CommandFailed(f"--real installs {CHART} and an image of this clone: run it in a clone of Equipoise")
    cluster = RealCluster(prepare(Path.cwd()), REAL_NODES)

    async def run() -> RealDemoResult:
        cancel_on_signals()
        return await run_real_demo(cluster, REAL_NODES, screen, keep=keep)

    click.echo(asyncio.run(run()).encoded())
