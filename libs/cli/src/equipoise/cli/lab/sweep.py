"""`equipoise lab sweep`: one policy under many settings."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from equipoise.cli.exit_codes import InvalidInput
from equipoise.cli.lab.compare import title
from equipoise.cli.lab.settings import changed, settings_of
from equipoise.cli.progress import progress
from equipoise.lab.model.trace import Trace
from equipoise.lab.replay import ReplayPlan
from equipoise.lab.runners import Job, on_dask, on_processes
from equipoise.lab.sweep import Point, SweepError, combinations, digest, sweep


def run_sweep(
    trace: Trace,
    values: Mapping[str, Sequence[str]],
    *,
    document: Mapping[str, Any],
    scenarios: Iterable[Any],
    descheduler: Sequence[bool],
    arrivals: Iterable[int],
    weights: Sequence[int],
    processes: int,
    address: str | None,
    out: Path,
) -> None:
    """Raises ConfigurationError for a value that is not allowed, InvalidInput for a file of another sweep."""
    points = []
    orders = tuple(arrivals)
    wanted = tuple(scenarios)
    for parameters in combinations(values):
        settings = settings_of(changed(document, parameters))
        policy = settings.scorer.policy
        inputs = digest(trace, settings)
        for scenario in wanted:
            for levelled in descheduler:
                for weight in weights:
                    points += [
                        Point(
                            parameters=parameters,
                            inputs=inputs,
                            job=Job(
                                settings=settings,
                                plan=ReplayPlan(
                                    scenario=scenario,
                                    policy=policy.policy_name(),
                                    scoring=policy,
                                    descheduler=levelled,
                                    seed=seed,
                                    weight=weight,
                                ),
                            ),
                        )
                        for seed in orders
                    ]
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
        raise InvalidInput(f"--dask {address}: no scheduler answers there ({error})") from error
    except ModuleNotFoundError as error:
        raise InvalidInput(
            f"--dask needs the extra of that name: pip install 'equipoise-lab[dask]' ({error})"
        ) from error
    click.echo(f"{len(points)} replays are in {out}")
