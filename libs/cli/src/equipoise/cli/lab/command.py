"""`equipoise lab`."""

import os
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from equipoise.cli import completed_names
from equipoise.cli.exit_codes import InvalidInput
from equipoise.cli.lab.question_options import question_options
from equipoise.cli.options import (
    FiniteRange,
    Function,
    configuration_option,
    context_option,
    json_option,
    kubeconfig_option,
    prometheus_option,
)

if TYPE_CHECKING:
    from equipoise.cli.lab.answers import Questions
    from equipoise.lab.model.trace import Trace
    from equipoise.lab.replay_plan import Settings
    from equipoise.lab.results import PlacementMode, Scenario

DEFAULT_SCENARIOS: tuple["Scenario", ...] = ("given", "churn", "fresh")
SCENARIOS: tuple["Scenario", ...] = (*DEFAULT_SCENARIOS, "autoscaled")
PLACEMENTS: tuple["PlacementMode", ...] = ("extender", "hints", "none")
FORECASTS = ("profile", "past", "6h")

replay_configuration_option = configuration_option(
    "Configuration file: load, thresholds, protection, surge, scorer, descheduler, limits, annotator.deletionCosts."
)
scenario_option = click.option(
    "--scenario",
    "scenarios",
    multiple=True,
    type=click.Choice(SCENARIOS),
    help=f"May be repeated.  [default: {', '.join(DEFAULT_SCENARIOS)}]",
)
arrivals_option = click.option(
    "--arrivals", type=click.IntRange(1), default=1, show_default=True, help="Number of random orders of arrival."
)
descheduler_option = click.option(
    "--descheduler",
    type=click.Choice(["without", "with", "both"]),
    default="both",
    show_default=True,
    callback=lambda context, parameter, value: {"without": (False,), "with": (True,), "both": (False, True)}[value],
    help="Replay without Equipoise's descheduler, with it, or both.",
)
policy_option = click.option(
    "--policy",
    "policies",
    multiple=True,
    shell_complete=completed_names.policies,
    help="stock, greedy or a scoring policy. May be repeated.  [default: all]",
)
processes_option = click.option(
    "--processes", type=click.IntRange(1), default=os.cpu_count() or 1, help="Parallel replays.  [default: CPUs]"
)


def trace_options(command: Function) -> Function:
    """Adds the options --trace, --nodes and --seed, which select the argument `trace`."""

    @click.option(
        "--trace",
        "folder",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Folder with a trace in a format of docs/traces.md. Defaults to the included example.",
    )
    @click.option("--nodes", type=click.IntRange(0), default=0, help="Replay only this number of nodes; 0: all.")
    @click.option("--seed", type=int, default=1, show_default=True, help="Seed of the random choice of nodes.")
    @wraps(command)
    def with_trace(*, folder: Path | None, nodes: int, seed: int, **values: Any) -> Any:
        return command(trace=_trace(folder, nodes, seed), **values)

    return with_trace


@click.group()
def lab() -> None:
    """Replay a recorded cluster with different policies."""


@lab.command()
@trace_options
@scenario_option
@policy_option
@click.option(
    "--placement",
    "placements",
    multiple=True,
    default=("extender",),
    type=click.Choice(PLACEMENTS),
    help="How scores reach kube-scheduler: by its extender, by placement hints (scorer.hints), or not at all, which is "
    "the policy stock. May be repeated.  [default: extender]",
)
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="MODULE:CLASS",
    help="Plugin of kube-scheduler in Python (MODULE:CLASS or FILE.py:CLASS) to compare with the policies. May be "
    "repeated; each plugin is replayed separately.",
)
@click.option(
    "--plugin-weight", type=click.IntRange(1), default=1, show_default=True, help="Weight of the scores of plugins."
)
@descheduler_option
@arrivals_option
@click.option(
    "--weight", type=click.IntRange(1), default=5, show_default=True, help="Weight of the extender in kube-scheduler."
)
@click.option(
    "--percentage-of-nodes-to-score",
    type=click.IntRange(0, 100),
    default=0,
    show_default=True,
    help="As in the configuration of kube-scheduler. 0: it depends on the number of nodes, at most half of "
    "200 nodes or more.",
)
@click.option(
    "--forecast",
    type=click.Choice(FORECASTS),
    default="profile",
    show_default=True,
    help="Forecast of the descheduler. profile: complete daily profiles; past: profiles learned since the start of the "
    "replay; 6h: the usage of the next 6 hours, as if it were known.",
)
@replay_configuration_option
@question_options
@processes_option
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Folder for a report.")
@json_option
def compare(
    trace: "Trace",
    scenarios: tuple["Scenario", ...],
    arrivals: int,
    configuration: Path | None,
    processes: int,
    out: Path | None,
    as_json: bool,
    questions: "Questions",
    **compared: Any,
) -> None:
    """Compare the stock scheduler and all policies on a trace."""
    from equipoise.cli.lab.replays import run_compare
    from equipoise.lab.compare import ComparisonRequest

    orders = tuple(range(1, arrivals + 1))
    request = ComparisonRequest(scenarios=scenarios or DEFAULT_SCENARIOS, arrivals=orders, **compared)
    settings = _settings(configuration)
    run_compare(trace, request, settings, processes=processes, out=out, as_json=as_json, questions=questions)


@lab.command()
@prometheus_option
@kubeconfig_option
@context_option
@click.option("--days", type=FiniteRange(min=0, min_open=True), default=7.0, show_default=True, help="Days to record.")
@click.option("--step", type=click.IntRange(1), default=900, show_default=True, help="Seconds between two values.")
@configuration_option("Configuration file: access to Prometheus and the API server.")
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="New folder.")
@json_option
def record(**options: Any) -> None:
    """Record a running cluster as a trace.

    Only reads. An interrupted recording is continued if the command is repeated.
    """
    from equipoise.cli.lab.record import run_record

    run_record(**options)


@lab.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@policy_option
@descheduler_option
@replay_configuration_option
@question_options
@processes_option
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Folder of the report.  [default: FOLDER/report]"
)
@json_option
def whatif(
    folder: Path,
    policies: tuple[str, ...],
    descheduler: tuple[bool, ...],
    configuration: Path | None,
    processes: int,
    out: Path | None,
    as_json: bool,
    questions: "Questions",
) -> None:
    """Compare policies on a recording of `lab record`."""
    from equipoise.cli.lab.replays import run_compare
    from equipoise.lab.compare import ComparisonRequest

    request = ComparisonRequest(scenarios=("given", "churn"), policies=policies, descheduler=descheduler)
    trace, settings = _recorded(folder), _settings(configuration)
    out = out or folder / "report"
    run_compare(trace, request, settings, processes=processes, out=out, as_json=as_json, questions=questions)


@lab.command()
@trace_options
@scenario_option
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="PATH=A,B,…",
    help="A setting and its values: scorer.minSpread=2,5. May be repeated.",
)
@descheduler_option
@arrivals_option
@click.option(
    "--placement",
    default="extender",
    show_default=True,
    type=click.Choice(PLACEMENTS),
    help="How scores reach kube-scheduler: by its extender, by placement hints, or not at all.",
)
@click.option("--weight", "weights", default="5", show_default=True, metavar="A,B,…", help="Weights of the extender.")
@replay_configuration_option
@processes_option
@click.option("--dask", "address", help="Run on this Dask scheduler (requires equipoise-lab[dask]).")
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="CSV file.")
def sweep(
    trace: "Trace",
    scenarios: tuple["Scenario", ...],
    assignments: tuple[str, ...],
    descheduler: tuple[bool, ...],
    arrivals: int,
    weights: str,
    placement: "PlacementMode",
    configuration: Path | None,
    processes: int,
    address: str | None,
    out: Path,
) -> None:
    """Replay a trace with all combinations of some settings.

    Replays whose results are in the file are not repeated.
    """
    from equipoise.cli.lab.replays import replay_points, run_sweep
    from equipoise.cli.service_settings import read_file

    values = dict(map(_assignment, assignments))
    if len(values) < len(assignments):
        raise click.UsageError("--set has the same path twice: use one --set with all values, separated by commas")
    if not all(weight.isdecimal() and int(weight) for weight in weights.split(",")):
        raise click.UsageError(f"--weight: {weights!r} is not a list of positive whole numbers")
    points = replay_points(
        trace,
        values,
        document=read_file(configuration),
        scenarios=scenarios or DEFAULT_SCENARIOS,
        descheduler=descheduler,
        seeds=range(1, arrivals + 1),
        weights=[int(weight) for weight in weights.split(",")],
        placement=placement,
    )
    run_sweep(trace, points, processes=processes, address=address, out=out)


def _assignment(text: str) -> tuple[str, list[str]]:
    path, equals, values = text.partition("=")
    if not equals or not path or not values:
        raise click.UsageError(f"--set: {text!r} is not PATH=A,B (example: scorer.minSpread=2,5)")
    return path, values.split(",")


def _trace(folder: Path | None, nodes: int, seed: int) -> "Trace":
    from equipoise.lab.example import FOLDER
    from equipoise.lab.formats import TraceError, load_trace

    try:
        trace = load_trace(folder or FOLDER, nodes=nodes, seed=seed)
    except TraceError as error:
        raise InvalidInput(str(error)) from error
    if 86_400 % trace.seconds_per_step:
        step = f"{trace.seconds_per_step:g} s"
        raise InvalidInput(f"{trace.name}: steps of {step} do not divide a day; resample the trace")
    if not trace.pods:
        raise InvalidInput(f"{trace.name}: there is no pod with known usage, so nothing can be replayed")
    return trace


def _recorded(folder: Path) -> "Trace":
    """The trace of a recording, with a note if it is too short to judge policies by it."""
    from msgspec.structs import replace

    trace = _trace(folder, 0, 1)
    hours = trace.steps * trace.seconds_per_step / 3_600
    if hours >= 24:
        return trace
    advice = "record at least a day (equipoise lab record), better a week, when Prometheus has it"
    if hours < 1:
        raise InvalidInput(f"{trace.name} has {60 * hours:.0f} min of usage, too little to compare policies: {advice}")
    note = (
        f"{hours:.0f} h of usage are repeated to a day, so neither the peak of a day nor the forecasts of the policy "
        f"profile can be judged: {advice}"
    )
    return replace(trace, notes=(*trace.notes, note))


def _settings(configuration: Path | None) -> "Settings":
    from equipoise.cli.lab.replays import replay_settings
    from equipoise.cli.service_settings import read_file

    return replay_settings(read_file(configuration))
