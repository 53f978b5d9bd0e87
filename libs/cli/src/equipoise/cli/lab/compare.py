"""`equipoise lab compare` and `whatif`: replays, prints a table and writes a report."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from equipoise.cli.exit_codes import InvalidInput
from equipoise.cli.progress import progress
from equipoise.cli.service_settings import all_settings
from equipoise.lab.compare import ComparisonRequest, plans, with_baseline
from equipoise.lab.model.load_figures import placement_figures
from equipoise.lab.model.trace import Trace
from equipoise.lab.replay import Settings
from equipoise.lab.report import write_report
from equipoise.lab.report.table import encoded, table
from equipoise.lab.results import RunFigures
from equipoise.lab.runners import on_processes

_PIPE_COLUMNS = 150


def replay_settings(document: Mapping[str, Any]) -> Settings:
    """Raises ConfigurationError."""
    settings = all_settings(document)
    return Settings(
        load=settings.shared.load,
        thresholds=settings.shared.thresholds,
        protection=settings.shared.protection,
        scorer=settings.scorer,
        descheduler=settings.descheduler,
        limits=settings.binder.limits,
    )


def run_compare(
    trace: Trace,
    request: ComparisonRequest,
    settings: Settings,
    *,
    processes: int,
    out: Path | None,
    as_json: bool,
    command: str,
) -> None:
    """Raises InvalidInput for an unknown policy."""
    try:
        replays = plans(request, settings)
    except ValueError as error:
        raise InvalidInput(f"--policy: {error}") from None
    stderr = Console(stderr=True, highlight=False)
    stderr.print(describe(trace), soft_wrap=True)
    runs = []
    with progress(len(replays)) as report:
        for _, run in on_processes(processes)(trace, replays):
            runs.append(run)
            report(title(run.figures))
    runs = with_baseline(runs)
    figures = [run.figures for run in runs]
    if as_json:
        click.echo(encoded(figures), nl=False)
    else:
        console = Console()
        if not console.is_terminal:
            console.width = _PIPE_COLUMNS
        console.print(table(figures))
    if out is not None:
        page = write_report(runs, trace.notes, title=trace.name, command=command, folder=out)
        stderr.print(f"report: {page}", soft_wrap=True)


def title(figures: RunFigures) -> str:
    """Scenario, policy and descheduler."""
    return f"{figures.scenario}, {figures.policy}{' + descheduler' if figures.descheduler else ''}"


def describe(trace: Trace) -> str:
    """Sizes, the spread of the load at the start, and notes."""
    text = (
        f"{trace.name}: {len(trace.nodes):,} nodes, {len(trace.workloads):,} workloads, {len(trace.pods):,} pods, "
        f"{trace.steps} steps of {trace.seconds_per_step / 60:g} min"
    )
    if (levels := placement_figures(trace)) is not None:
        text += (
            f"\nas placed in the trace: CPU spread {levels['peak_spread']:.0f} points at the peak hour, "
            f"{levels['median_spread']:.0f} in the median hour; memory {levels['memory_share']:.0f} % requested"
        )
    return "\n".join([text, *(f"note: {note}" for note in trace.notes)])
