"""`equipoise lab sweep`: one policy with many settings."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import click

from equipoise.cli.exit_codes import InvalidInput
from equipoise.cli.lab.compare import title
from equipoise.cli.lab.settings import replay_settings, with_parameters
from equipoise.cli.progress import progress
from equipoise.lab.model.trace import Trace
from equipoise.lab.replay import ReplayPlan
from equipoise.lab.runners import Job, on_dask, on_processes
from equipoise.lab.sweep import Point, SweepError, combinations, digest, sweep


def replay_points(
    trace: Trace,
    values: Mapping[str, Sequence[str]],
    *,
    document: Mapping[str, Any],
    scenarios: Iterable[Any],
    descheduler: Iterable[bool],
    seeds: Iterable[int],
    weights: Iterable[int],
) -> list[Point]:
    """Every combination. Raises ConfigurationError for an invalid value."""
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
            )
            points.append(Point(parameters=parameters, inputs=inputs, job=Job(settings=settings, plan=plan)))
    return points


def run_sweep(trace: Trace, points: Sequence[Point], *, processes: int, address: str | None, out: Path) -> None:
    """Raises InvalidInput for the file of another sweep, and for a Dask scheduler that is not available."""
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
