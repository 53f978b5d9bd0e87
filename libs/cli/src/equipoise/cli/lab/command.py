"""`equipoise lab`: names and options. The work is done elsewhere, imported when it is asked for."""

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from equipoise.cli.exit_codes import InvalidInput

if TYPE_CHECKING:
    from equipoise.lab.model.trace import Trace
    from equipoise.lab.replay import Settings
    from equipoise.lab.results import ForecastSource, Scenario

SCENARIOS = ("given", "churn", "fresh")
FORESIGHTS = ("profile", "past", "6h")

output_option = click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
configuration_option = click.option(
    "--config",
    "configuration",
    envvar="EQUIPOISE_CONFIG",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Its load, thresholds, scorer, descheduler and limits are replayed.  [env: EQUIPOISE_CONFIG]",
)
trace_option = click.option(
    "--trace",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder in one of the formats of docs/traces.md; default: the example that comes with the program.",
)
nodes_option = click.option("--nodes", type=click.IntRange(0), default=0, help="A slice of so many nodes; 0: all.")
seed_option = click.option("--seed", type=int, default=1, show_default=True, help="Which nodes the slice has.")
scenario_option = click.option(
    "--scenario", "scenarios", multiple=True, type=click.Choice(SCENARIOS), help="May be repeated.  [default: all]"
)
arrivals_option = click.option(
    "--arrivals", type=click.IntRange(1), default=1, show_default=True, help="How many orders of arrival are tried."
)
descheduler_option = click.option(
    "--descheduler",
    type=click.Choice(["without", "with", "both"]),
    default="both",
    show_default=True,
    help="Replays with Equipoise's descheduler, without, or both.",
)
weight_option = click.option(
    "--weight", type=click.IntRange(1), default=5, show_default=True, help="Of the extender's entry."
)
forecast_option = click.option(
    "--forecast",
    type=click.Choice(FORESIGHTS),
    default="profile",
    show_default=True,
    help="What the descheduler knows of what is to come: profiles, only those since it began, or the next 6 hours.",
)
processes_option = click.option(
    "--processes", type=click.IntRange(1), default=os.cpu_count() or 1, help="Replays at once.  [default: processors]"
)


@click.group()
def lab() -> None:
    """Replay a cluster and see what each policy would have made of it."""


@lab.command()
@trace_option
@nodes_option
@seed_option
@scenario_option
@click.option(
    "--policy", "policies", multiple=True, help="stock, greedy, or a scoring policy; may be repeated.  [default: all]"
)
@descheduler_option
@arrivals_option
@weight_option
@forecast_option
@configuration_option
@processes_option
@click.option("--out", "out", type=click.Path(file_okay=False, path_type=Path), help="Where the report goes.")
@output_option
def compare(
    folder: Path | None,
    nodes: int,
    seed: int,
    scenarios: tuple["Scenario", ...],
    policies: tuple[str, ...],
    descheduler: str,
    arrivals: int,
    weight: int,
    forecast: "ForecastSource",
    configuration: Path | None,
    processes: int,
    out: Path | None,
    output: str,
) -> None:
    """Replay a trace under the stock scheduler and under each policy, and compare how level its nodes were."""
    from equipoise.cli.lab.compare import run_compare
    from equipoise.lab.compare import ComparisonRequest

    request = ComparisonRequest(
        weight=weight,
        forecast=forecast,
        arrivals=tuple(range(1, arrivals + 1)),
        descheduler=_both(descheduler),
    )
    request = _narrowed(request, scenarios=scenarios, policies=policies)
    trace = _trace(folder, nodes, seed)
    run_compare(
        trace, request, _settings(configuration), processes=processes, out=out, as_json=output == "json",
        command=_command(),
    )  # fmt: skip


@lab.command()
@click.option("--prometheus", "prometheus_url", help="URL of the Prometheus that scrapes the kubelets.")
@click.option("--kubeconfig", default="", help="Files, parted by colons; default: what KUBECONFIG names.")
@click.option("--context", default="", help="Of the kubeconfig; default: the current one.")
@click.option("--days", type=click.FloatRange(min=0, min_open=True), default=7.0, show_default=True)
@click.option("--step", type=click.IntRange(1), default=900, show_default=True, help="Seconds that a value spans.")
@click.option(
    "--config",
    "configuration",
    envvar="EQUIPOISE_CONFIG",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Says how to reach Prometheus and the API server (TLS, tokens).  [env: EQUIPOISE_CONFIG]",
)
@click.option("--out", "out", required=True, type=click.Path(file_okay=False, path_type=Path), help="A new folder.")
@output_option
def record(
    prometheus_url: str | None,
    kubeconfig: str,
    context: str,
    days: float,
    step: int,
    configuration: Path | None,
    out: Path,
    output: str,
) -> None:
    """Record a week of a running cluster as a trace: reads only, and goes on where it was cut off."""
    from equipoise.cli.lab.record import run_record

    run_record(
        _document(configuration), prometheus_url=prometheus_url, kubeconfig=kubeconfig, context=context, days=days,
        step=step, out=out, as_json=output == "json",
    )  # fmt: skip


@lab.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@descheduler_option
@configuration_option
@processes_option
@click.option(
    "--out", "out", type=click.Path(file_okay=False, path_type=Path), help="Default: the folder's own `report`."
)
@output_option
def whatif(
    folder: Path, descheduler: str, configuration: Path | None, processes: int, out: Path | None, output: str
) -> None:
    """What each policy would have made of the cluster that `lab record` recorded."""
    from equipoise.cli.lab.compare import run_compare
    from equipoise.lab.compare import ComparisonRequest

    request = ComparisonRequest(scenarios=("given", "churn"), descheduler=_both(descheduler))
    run_compare(
        _trace(folder, 0, 1), request, _settings(configuration), processes=processes, out=out or folder / "report",
        as_json=output == "json", command=_command(),
    )  # fmt: skip


@lab.command()
@trace_option
@nodes_option
@seed_option
@scenario_option
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="PATH=A,B,…",
    help="A setting and its values, by its path in the configuration: scorer.minSpread=2,5. May be repeated.",
)
@descheduler_option
@arrivals_option
@click.option("--weight", "weights", default="5", show_default=True, metavar="A,B,…", help="Of the extender's entry.")
@configuration_option
@processes_option
@click.option("--dask", "address", help="A Dask scheduler to run on instead (needs equipoise-lab[dask]).")
@click.option("--out", "out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="A CSV file.")
def sweep(
    folder: Path | None,
    nodes: int,
    seed: int,
    scenarios: tuple["Scenario", ...],
    assignments: tuple[str, ...],
    descheduler: str,
    arrivals: int,
    weights: str,
    configuration: Path | None,
    processes: int,
    address: str | None,
    out: Path,
) -> None:
    """Replay a trace under many settings of the configured policy. What the file holds already is not done again."""
    from equipoise.cli.lab.sweep import run_sweep

    given = [_assignment(assignment) for assignment in assignments]
    values = dict(given)
    if len(values) < len(given):
        raise click.UsageError("--set names a path twice: give all of its values at once, parted by commas")
    if not all(weight.isdecimal() and int(weight) for weight in weights.split(",")):
        raise click.UsageError(f"--weight: {weights!r} is no list of whole numbers from 1 on")
    wanted = [int(weight) for weight in weights.split(",")]
    run_sweep(
        _trace(folder, nodes, seed),
        values,
        document=_document(configuration),
        scenarios=scenarios or SCENARIOS,
        descheduler=_both(descheduler),
        arrivals=range(1, arrivals + 1),
        weights=wanted,
        processes=processes,
        address=address,
        out=out,
    )


def _both(descheduler: str) -> tuple[bool, ...]:
    return {"without": (False,), "with": (True,), "both": (False, True)}[descheduler]


def _narrowed(request: Any, **chosen: tuple[str, ...]) -> Any:
    """The request with what was chosen; what was not stays as it is."""
    import msgspec

    return msgspec.structs.replace(request, **{name: values for name, values in chosen.items() if values})


def _assignment(text: str) -> tuple[str, list[str]]:
    path, equals, values = text.partition("=")
    if not equals or not path or not values:
        raise click.UsageError(f"--set: {text!r} is no PATH=A,B (example: scorer.minSpread=2,5)")
    return path, values.split(",")


def _trace(folder: Path | None, nodes: int, seed: int) -> "Trace":
    from equipoise.lab.example import FOLDER
    from equipoise.lab.formats import TraceError, load_trace

    try:
        trace = load_trace(folder or FOLDER, nodes=nodes, seed=seed)
    except TraceError as error:
        raise InvalidInput(str(error)) from error
    if 86_400 % trace.seconds_per_step:
        raise InvalidInput(
            f"{trace.name}: steps of {trace.seconds_per_step:g} s do not divide a day: resample the trace"
        )
    if not trace.pods:
        raise InvalidInput(f"{trace.name}: the trace has no pod whose usage is known, so there is nothing to replay")
    return trace


def _document(configuration: Path | None) -> dict[str, Any]:
    from equipoise.runtime.configuration import read_document

    return {} if configuration is None else read_document(configuration.read_text(encoding="utf-8"))


def _settings(configuration: Path | None) -> "Settings":
    from equipoise.cli.lab.settings import settings_of

    return settings_of(_document(configuration))


def _command() -> str:
    """What was typed."""
    return shlex.join(["equipoise", *sys.argv[1:]])
