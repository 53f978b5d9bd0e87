"""`equipoise demo`."""

from pathlib import Path

import click


@click.command()
@click.option(
    "--trace",
    "trace_folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Replay 40 nodes of this trace (docs/traces.md) instead of the generated example.",
)
@click.option("--seed", default=1, show_default=True, help="Selects the generated example or the nodes of the trace.")
@click.option("--keep", is_flag=True, help="Keep everything running at the end, and print how to connect.")
def demo(trace_folder: Path | None, seed: int, keep: bool) -> None:
    """Run Equipoise on a throwaway real cluster and measure the result.

    The last line of the output is one JSON object.
    """
    import asyncio

    from rich.console import Console

    from equipoise.cli.demo.live_view import Screen
    from equipoise.cli.demo.run import DemoOptions, run_demo
    from equipoise.runtime.configuration import Logging
    from equipoise.runtime.process.logging import configure_logging

    configure_logging(Logging(level="warning"), "demo")
    screen = Screen(Console(stderr=True))
    result = asyncio.run(run_demo(DemoOptions(trace_folder=trace_folder, seed=seed, keep=keep), screen))
    click.echo(result.encoded())
