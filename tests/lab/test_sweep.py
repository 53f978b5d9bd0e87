"""Sweeps: every combination once, whatever is cut off."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from lab.traces import a_trace

from equipoise.lab.model.trace import Trace
from equipoise.lab.replay import STOCK, ReplayPlan, Settings
from equipoise.lab.results import Run
from equipoise.lab.runners import Job, on_dask, on_processes
from equipoise.lab.sweep import Point, SweepError, combinations, digest, sweep

TRACE = a_trace(replicas=(3,))


def points(*values: str, seeds: Sequence[int] = (1,)) -> list[Point]:
    return [
        Point(
            parameters={"scorer.minSpread": value},
            job=Job(plan=ReplayPlan(scenario="fresh", policy=STOCK, seed=seed), settings=Settings()),
        )
        for value in values
        for seed in seeds
    ]


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened))


def swept(wanted: Sequence[Point], file: Path) -> list[Point]:
    return [point for point, _ in sweep(TRACE, wanted, file, on_processes(1))]


def test_combinations_are_all_of_them() -> None:
    """The product of the values; one empty combination of none."""
    assert [{"a": "1", "b": "3"}, {"a": "2", "b": "3"}] == combinations({"a": ["1", "2"], "b": ["3"]})
    assert [{}] == combinations({})


def test_every_replay_is_a_row_with_its_parameters(tmp_path: Path) -> None:
    """Parameters first, then what tells runs apart, then every figure."""
    file = tmp_path / "out.csv"

    swept(points("2", "5", seeds=(1, 2)), file)

    assert [("2", "1"), ("2", "2"), ("5", "1"), ("5", "2")] == [
        (row["scorer.minSpread"], row["arrival_seed"]) for row in rows(file)
    ]
    assert {"fresh"} == {row["scenario"] for row in rows(file)}
    assert all(float(row["peak_spread"]) >= 0 for row in rows(file))


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    """A second sweep makes only what the first did not."""
    file = tmp_path / "out.csv"
    swept(points("2"), file)

    assert ["5"] == [point.parameters["scorer.minSpread"] for point in swept(points("2", "5"), file)]
    assert 2 == len(rows(file))


def test_another_trace_is_another_sweep(tmp_path: Path) -> None:
    """The same parameters on other input are not done yet."""
    file, other = tmp_path / "out.csv", a_trace(replicas=(4,))
    named = [
        msgspec.structs.replace(point, inputs=digest(trace, Settings()))
        for trace in (TRACE, other)
        for point in points("2")
    ]

    assert [1, 1] == [len(swept([point], file)) for point in named]
    assert 2 == len({row["inputs"] for row in rows(file)})


def test_a_row_that_was_cut_off_is_made_again(tmp_path: Path) -> None:
    """Half a line, without its end, does not spoil the next one."""
    file = tmp_path / "out.csv"
    swept(points("2", "5"), file)
    file.write_bytes(file.read_bytes()[:-40])

    assert ["5"] == [point.parameters["scorer.minSpread"] for point in swept(points("2", "5"), file)]
    assert ["2", "5"] == [row["scorer.minSpread"] for row in rows(file)]


def test_a_file_of_another_sweep_is_left_alone(tmp_path: Path) -> None:
    """It would not be readable afterwards."""
    file = tmp_path / "out.csv"
    file.write_text("name,value\nmine,1\n")

    with pytest.raises(SweepError, match="other parameters"):
        swept(points("2"), file)
    assert "name,value\nmine,1\n" == file.read_text()


def test_a_cut_keeps_the_rows_before_it(tmp_path: Path) -> None:
    """Each row is written as its replay ends."""
    file = tmp_path / "out.csv"

    def cut_off(trace: Trace, jobs: Sequence[Job]) -> Iterator[tuple[int, Run]]:
        yield next(on_processes(1)(trace, jobs))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(sweep(TRACE, points("2", "5"), file, cut_off))
    assert ["2"] == [row["scorer.minSpread"] for row in rows(file)]


async def test_a_dask_cluster_gives_the_same_rows(tmp_path: Path) -> None:
    """The same replays on a real scheduler with two workers."""
    import asyncio

    from distributed import LocalCluster

    here, there = tmp_path / "here.csv", tmp_path / "there.csv"
    swept(points("2", "5"), here)

    def on_cluster() -> None:
        with LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster:
            list(sweep(TRACE, points("2", "5"), there, on_dask(cluster.scheduler_address)))

    await asyncio.to_thread(on_cluster)

    def without_times(file: Path) -> list[dict[str, str]]:
        return sorted(({**row, "seconds": ""} for row in rows(file)), key=lambda row: row["scorer.minSpread"])

    assert without_times(here) == without_times(there)
