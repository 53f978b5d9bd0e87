"""Traces: the generated example and slices of a folder."""

import gzip
from pathlib import Path

import pytest

from equipoise.cli.demo.example import example_trace
from equipoise.cli.demo.trace import load_slice


def a_folder(folder: Path) -> Path:
    tables = {
        "nodes": "node_id,cpu_milli,memory_mib\nmachine_1,32000,65536\nmachine_2,92000,294912\nmachine_3,32000,65536\n",
        "pods": "pod_id,app_id,node_id\ni1,app_1,machine_1\ni2,app_1,machine_2\ni3,app_2,machine_2\ni4,app_2,\n",
        "app_cpu_milli": "app_id,t0,t1\napp_1,500,4500\napp_2,,300\napp_3,1,1\n",
        "app_memory_mib": "app_id,t0,t1\napp_1,100,200\napp_2,50,50\napp_3,1,1\n",
    }
    for name, text in tables.items():
        with gzip.open(folder / f"{name}.csv.gz", "wt") as file:
            file.write(text)
    return folder


def test_the_example_is_the_same_for_the_same_seed() -> None:
    """A demo can be repeated."""
    assert example_trace(3) == example_trace(3)
    assert example_trace(3) != example_trace(4)


@pytest.mark.parametrize("seed", range(1, 6))
def test_the_example_is_of_the_promised_size(seed: int) -> None:
    """40 nodes of two sizes, at least 600 pods of at least 40 workloads, some with budgets, some excluded."""
    trace = example_trace(seed)

    assert 40 == len(trace.nodes)
    assert 2 == len({node.cpu_milli for node in trace.nodes})
    assert trace.pods >= 600
    assert len(trace.workloads) >= 40
    assert any(workload.protected_by_budget for workload in trace.workloads)
    assert any(workload.excluded for workload in trace.workloads)


def test_the_example_has_idle_over_requesters_and_days() -> None:
    """Some ask for ten times what they ever use, and usage has a peak hour."""
    workloads = example_trace().workloads

    assert any(workload.request_cpu_milli > 8 * max(workload.cpu_milli) for workload in workloads)
    assert any(max(workload.cpu_milli) > 1.4 * min(workload.cpu_milli) for workload in workloads)


def test_a_slice_takes_occupied_nodes_with_all_their_pods(tmp_path: Path) -> None:
    """machine_3 is empty, and a pod without a node belongs to no slice."""
    trace = load_slice(a_folder(tmp_path), nodes=2, seed=1)

    assert {"machine-1", "machine-2"} == {node.name for node in trace.nodes}
    assert {"app-1": 2, "app-2": 1} == {workload.name: workload.replicas for workload in trace.workloads}


def test_requests_that_the_trace_does_not_tell_are_derived_and_said_so(tmp_path: Path) -> None:
    """The limit is the smallest size that covers the curve, the request half of it."""
    trace = load_slice(a_folder(tmp_path), nodes=2, seed=1)
    first = trace.workloads[0]

    assert trace.derived_requests
    assert (6000, 3000, 200) == (first.limit_cpu_milli, first.request_cpu_milli, first.request_memory_mib)


def test_an_empty_cell_is_no_usage_of_zero(tmp_path: Path) -> None:
    """A missing reading takes the curve's mean."""
    trace = load_slice(a_folder(tmp_path), nodes=2, seed=1)

    assert (300.0, 300.0) == trace.workloads[1].cpu_milli


def test_a_folder_that_is_no_trace_says_what_is_missing(tmp_path: Path) -> None:
    """The message names the file."""
    with pytest.raises(FileNotFoundError, match=r"pods\.csv\.gz is missing"):
        load_slice(tmp_path, nodes=2, seed=1)
