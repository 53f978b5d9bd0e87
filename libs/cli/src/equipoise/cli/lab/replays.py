"""The commands `equipoise lab compare`, `whatif` and `sweep`, which replay a trace and print or write the results."""

import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from itertools import product
from pathlib import Path
from typing import Any

import click
import yaml
from rich.text import Text

from equipoise.cli.exit_codes import InvalidInput
from equipoise.cli.lab.answers import Questions, answered, question_problem, title, write_manifests
from equipoise.cli.progress import progress
from equipoise.cli.service_settings import all_settings
from equipoise.cli.terminal import FittedTable, VisibleConsole, result_console
from equipoise.contracts.configuration.moves import deletion_costs
from equipoise.lab.compare import ComparisonRequest, check_plugins, plans, with_baseline
from equipoise.lab.model.load_figures import placement_figures
from equipoise.lab.model.trace import Trace
from equipoise.lab.replay_plan import ReplayPlan, Settings
from equipoise.lab.report import write_report
from equipoise.lab.report.capacity_tables import capacity_notes, capacity_rows
from equipoise.lab.report.comparison import BEST
from equipoise.lab.report.rows import as_table
from equipoise.lab.report.table import encoded, plugin_problems, table
from equipoise.lab.results import PlacementMode
from equipoise.lab.runners import on_dask, on_processes
from equipoise.lab.sweep import Point, SweepError, combinations, digest, sweep
from equipoise.scheduling.settings.document import InvalidConfiguration


def replay_settings(document: Mapping[str, Any]) -> Settings:
    """The settings of a replay, from a configuration. Raises ConfigurationError."""
    settings = all_settings(document)
    level = settings.shared.moves.level
    return Settings(
        load=settings.shared.load,
        thresholds=settings.shared.thresholds,
        protection=settings.shared.protection,
        level=level,
        surge=settings.shared.surge,
        scorer=settings.scorer,
        descheduler=settings.descheduler,
        limits=settings.binder.limits,
        deletion_costs=deletion_costs(level, settings.annotator.deletion_costs),
    )


def run_compare(
    trace: Trace,
    request: ComparisonRequest,
    settings: Settings,
    *,
    processes: int,
    out: Path | None,
    as_json: bool,
    questions: Questions,
) -> None:
    """Replay every plan and print the comparison.

    Raises InvalidInput for an unknown policy, an unusable plugin, and a question that the trace does not answer.
    """
    try:
        replays = plans(request, settings)
        check_plugins(replays)
    except InvalidConfiguration as error:
        raise InvalidInput(f"--plugin: {error}") from error
    except ValueError as error:
        raise InvalidInput(f"--policy: {error}") from None
    if why := question_problem(trace, questions):
        raise InvalidInput(why)
    stderr = VisibleConsole(stderr=True)
    stderr.print(describe(trace), soft_wrap=True)
    runs = []
    with progress(len(replays)) as report:
        for _, run in on_processes(processes)(trace, replays):
            runs.append(run)
            report(title(run.figures))
    runs = with_baseline(runs)
    figures = [run.figures for run in runs]
    capacity = answered(trace, request, settings, questions, processes) if questions.any else None
    if as_json:
        click.echo(encoded(figures, capacity), nl=False)
    else:
        console = result_console()
        console.print(table(figures, FittedTable))
        console.print(Text(f"\n{BEST}"))
        for problem in plugin_problems(figures):
            console.print(Text(problem, style="red"))
        if capacity is not None:
            for rows in capacity_rows(capacity):
                console.print(Text(f"\n{rows.title}", style="bold"))
                console.print(as_table(rows, FittedTable))
            console.print(Text("".join(f"\n{note}" for note in capacity_notes(capacity))))
    if out is not None:
        notes, command = (*trace.notes, *plugin_problems(figures)), shlex.join(["equipoise", *sys.argv[1:]])
        page = write_report(runs, notes, title=trace.name, command=command, folder=out, capacity=capacity)
        if capacity is not None and capacity.requests is not None:
            write_manifests(capacity.requests, questions.update_mode, out)
        stderr.print(f"report: {page}", soft_wrap=True)


def describe(trace: Trace) -> str:
    """The size of the trace, the spread of its load at the start, and its notes."""
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


def replay_points(
    trace: Trace,
    values: Mapping[str, Sequence[str]],
    *,
    document: Mapping[str, Any],
    scenarios: Iterable[Any],
    descheduler: Iterable[bool],
    seeds: Iterable[int],
    weights: Iterable[int],
    placement: PlacementMode,
) -> list[Point]:
    """A point for every combination of the arguments. Raises ConfigurationError for an invalid value."""
    points = []
    variants = list(product(scenarios, descheduler, weights, seeds))
    for parameters in combinations(values):
        settings = replay_settings(with_parameters(document, parameters))
        policy, inputs = settings.scorer.policy, digest(trace, settings)
        for scenario, with_descheduler, weight, seed in variants:
            plan = ReplayPlan(
                scenario=scenario,
                policy=policy.policy_name(),
                scoring=policy,
                descheduler=with_descheduler,
                seed=seed,
                weight=weight,
                placement=placement,
                settings=settings,
            )
            points.append(Point(parameters=parameters, inputs=inputs, plan=plan))
    return points


def with_parameters(document: Mapping[str, Any], parameters: Mapping[str, str]) -> dict[str, Any]:
    """The document with each value at its path. Raises InvalidInput if a parent in a path is not a section."""
    copy = deepcopy(dict(document))
    for path, value in parameters.items():
        *parents, name = path.split(".")
        section: Any = copy
        for parent in parents:
            section = section.setdefault(parent, {})
            if not isinstance(section, dict):
                raise InvalidInput(f"--set {path}: {parent} is not a section of the configuration")
        try:
            section[name] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise InvalidInput(f"--set {path}: {value!r} is not a YAML value") from error
    return copy


def run_sweep(trace: Trace, points: Sequence[Point], *, processes: int, address: str | None, out: Path) -> None:
    """Replay all points, in order, into a CSV file.

    Raises InvalidInput if the file is that of another sweep, and if the Dask scheduler is not available.
    """
    try:
        runner = on_processes(processes) if address is None else on_dask(address)
        with progress(len(points)) as report:
            for point, run in sweep(trace, points, out, runner):
                report(f"{title(run.figures)} {' '.join(point.parameters.values())}")
    except SweepError as error:
        raise InvalidInput(str(error)) from error
    except OSError as error:
        if address is None:
            raise
        raise InvalidInput(f"--dask {address}: the scheduler does not respond ({error})") from error
    except ModuleNotFoundError as error:
        raise InvalidInput(f"--dask requires the extra dask: pip install 'equipoise-lab[dask]' ({error})") from error
    click.echo(f"{len(points)} replays are in {out}")
