"""`equipoise lab sweep`: one policy with many settings."""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from itertools import product
from pathlib import Path
from typing import Any

import click
import yaml

from equipoise.cli.exit_codes import InvalidInput
from equipoise.cli.lab.compare import replay_settings, title
from equipoise.cli.progress import progress
from equipoise.lab.model.trace import Trace
from equipoise.lab.replay import ReplayPlan
from equipoise.lab.runners import on_dask, on_processes
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
                settings=settings,
            )
            points.append(Point(parameters=parameters, inputs=inputs, plan=plan))
    return points


def with_parameters(document: Mapping[str, Any], parameters: Mapping[str, str]) -> dict[str, Any]:
    """The document with each value at its path. Raises InvalidInput for a path through something that is no section."""
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
