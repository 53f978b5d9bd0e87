"""Sweeps over settings, including interrupted ones."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from lab.traces import a_trace

from equipoise.lab.model.trace import Trace
from equipoise.lab.replay_plan import ReplayPlan, Settings
from equipoise.lab.results import STOCK, Run
from equipoise.lab.runners import on_dask, on_processes
from equipoise.lab.sweep import Point, SweepError, combinations, digest, sweep

TRACE = a_trace(replicas=(3,))


def points(*values: str, seeds: Sequence[int] = (1,)) -> list[Point]:
    return [
        Point(
            parameters={"scorer.minSpread": value},
            plan=ReplayPlan(scenario="fresh", policy=STOCK, seed=seed),
        )
        for value in values
        for seed in seeds
    ]


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened))


def swept(wanted: Sequence[Point], file: Path) -> list[Point]:
    return [point for point, _ in sweep(TRACE, wanted, file, on_processes(1))]


def test_combinations_are_the_product_of_all_values() -> None:
    """One empty combination without values."""
    assert [{"a": "1", "b": "3"}, {"a": "2", "b": "3"}] == combinations({"a": ["1", "2"], "b": ["3"]})
    assert [{}] == combinations({})


def test_every_replay_has_a_row_with_its_parameters_and_figures(tmp_path: Path) -> None:
    file = tmp_path / "out.csv"

    swept(points("2", "5", seeds=(1, 2)), file)

    assert [("2", "1"), ("2", "2"), ("5", "1"), ("5", "2")] == [
        (row["scorer.minSpread"], row["arrival_seed"]) for row in rows(file)
    ]
    assert {"fresh"} == {row["scenario"] for row in rows(file)}
    assert all(float(row["peak_spread"]) >= 0 for row in rows(file))


def test_finished_replays_are_not_repeated(tmp_path: Path) -> None:
    """A second sweep runs only the missing ones."""
    file = tmp_path / "out.csv"
    swept(points("2"), file)

    assert ["5"] == [point.parameters["scorer.minSpread"] for point in swept(points("2", "5"), file)]
    assert 2 == len(rows(file))


def test_replays_of_another_trace_are_not_finished(tmp_path: Path) -> None:
    """Even with the same parameters."""
    file, other = tmp_path / "out.csv", a_trace(replicas=(4,))
    named = [
        msgspec.structs.replace(point, inputs=digest(trace, Settings()))
        for trace in (TRACE, other)
        for point in points("2")
    ]

    assert [1, 1] == [len(swept([point], file)) for point in named]
    assert 2 == len({row["inputs"] for row in rows(file)})


def test_an_incomplete_row_is_replaced(tmp_path: Path) -> None:
    """The next row starts on a new line."""
    file = tmp_path / "out.csv"
    swept(points("2", "5"), file)
    file.write_bytes(file.read_bytes()[:-40])

    assert ["5"] == [point.parameters["scorer.minSpread"] for point in swept(points("2", "5"), file)]
    assert ["2", "5"] == [row["scorer.minSpread"] for row in rows(file)]


def test_a_file_of_another_sweep_is_refused(tmp_path: Path) -> None:
    """It is not changed."""
    file = tmp_path / "out.csv"
    file.write_text("name,value\nmine,1\n")

    with pytest.raises(SweepError, match="other parameters"):
        swept(points("2"), file)
    assert "name,value\nmine,1\n" == file.read_text()


def test_an_interruption_keeps_finished_rows(tmp_path: Path) -> None:
    """Each row is written when its replay ends."""
    file = tmp_path / "out.csv"

    def interrupted(trace: Trace, plans: Sequence[ReplayPlan]) -> Iterator[tuple[int, Run]]:
        yield next(on_processes(1)(trace, plans))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(sweep(TRACE, points("2", "5"), file, interrupted))
    assert ["2"] == [row["scorer.minSpread"] for row in rows(file)]


async def test_a_dask_cluster_gives_the_same_rows(tmp_path: Path) -> None:
    """A real scheduler with two workers."""
    import asyncio

    from distributed import LocalCluster

    local, remote = tmp_path / "local.csv", tmp_path / "remote.csv"
    swept(points("2", "5"), local)

    def on_cluster() -> None:
        with LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster:
            list(sweep(TRACE, points("2", "5"), remote, on_dask(cluster.scheduler_address)))

    await asyncio.to_thread(on_cluster)

    def without_times(file: Path) -> list[dict[str, str]]:
        return sorted(({**row, "seconds": ""} for row in rows(file)), key=lambda row: row["scorer.minSpread"])

    assert without_times(local) == without_times(remote)
