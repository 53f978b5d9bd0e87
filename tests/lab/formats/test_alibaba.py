"""The format of the Alibaba trace."""

from pathlib import Path

import msgspec
import pytest
from lab.trace_folders import ALIBABA, ALIBABA_PUBLISHED, assert_same, by_name, write_folder

from equipoise.lab.formats import TraceError, load_trace
from equipoise.lab.model.trace import (
    AntiAffinity,
)


def test_requests_are_derived_from_the_curves(tmp_path: Path) -> None:
    """The limit is the smallest size that covers the curve, the request half of it; memory is the maximum. A note
    mentions it."""
    trace = load_trace(write_folder(tmp_path, ALIBABA))
    first = by_name(trace)["app-1"]

    assert (6_000, 3_000, 200) == (first.limit_cpu_milli, first.request_cpu_milli, first.request_memory_mib)
    assert any("derived requests" in note for note in trace.notes)


def test_nodes_placed_pods_and_their_workloads_are_read(tmp_path: Path) -> None:
    """All nodes, but only pods with a node, and the workloads of these."""
    trace = load_trace(write_folder(tmp_path, ALIBABA))

    assert ["machine-1", "machine-2", "machine-3"] == [node.name for node in trace.nodes]
    assert (92_000, 294_912) == (trace.nodes[1].cpu_milli, trace.nodes[1].memory_mib)
    assert [("i1", "app-1", "machine-1"), ("i2", "app-1", "machine-2"), ("i3", "app-2", "machine-2")] == [
        (pod.name, trace.workloads[pod.workload].name, pod.node) for pod in trace.pods
    ]
    assert ["app-1", "app-2"] == [workload.name for workload in trace.workloads]
    assert [[500.0, 4_500.0], [300.0, 300.0]] == trace.cpu_milli.tolist()
    assert [[100.0, 200.0], [50.0, 50.0]] == trace.memory_mib.tolist()
    assert (900.0, 0.0) == (trace.seconds_per_step, trace.starts_at)


def test_rules_between_workloads_of_the_trace_are_read(tmp_path: Path) -> None:
    """For an app with itself, the data allow one pod more than max_b."""
    trace = load_trace(write_folder(tmp_path, ALIBABA))

    assert (AntiAffinity(beside=0, limited=0, most=2), AntiAffinity(beside=0, limited=1, most=0)) == trace.rules


def test_the_file_with_rules_is_optional(tmp_path: Path) -> None:
    tables = {name: text for name, text in ALIBABA.items() if name != "anti_affinity"}

    assert () == load_trace(write_folder(tmp_path, tables)).rules


def test_a_slice_contains_the_pods_of_its_nodes_and_their_workloads(tmp_path: Path) -> None:
    """And the rules of these workloads."""
    tables = ALIBABA | {"pods": "pod_id,app_id,node_id\ni1,app_1,machine_1\ni2,app_2,machine_3\n"}

    for seed in range(8):
        trace = load_trace(write_folder(tmp_path, tables), nodes=1, seed=seed)
        (node,) = trace.nodes

        assert node.name in ("machine-1", "machine-3")
        assert {"machine-1": ["app-1"], "machine-3": ["app-2"]}[node.name] == [work.name for work in trace.workloads]
        assert [node.name] == [pod.node for pod in trace.pods]
        assert (node.name == "machine-1") == bool(trace.rules)
        assert any(f"1 of 3 nodes, sampled from the occupied ones with seed {seed}" in note for note in trace.notes)


def test_only_the_first_day_of_steps_is_used(tmp_path: Path) -> None:
    """The day can then repeat. Requests are derived from the whole curve."""
    header = "app_id," + ",".join(f"t{step}" for step in range(98)) + "\n"
    curve = ",".join(["100"] * 96 + ["200", "9000"])
    tables = ALIBABA | {
        "app_cpu_milli": f"{header}app_1,{curve}\napp_2,{curve}\n",
        "app_memory_mib": f"{header}app_1,{curve}\napp_2,{curve}\n",
    }
    trace = load_trace(write_folder(tmp_path, tables))

    assert 96 == trace.steps
    assert {100.0} == set(trace.cpu_milli.ravel())
    assert (12_000, 9_000) == (trace.workloads[0].limit_cpu_milli, trace.workloads[0].request_memory_mib)
    assert any("first 96 of 98 steps" in note for note in trace.notes)


RESOURCES = "scheduling_preliminary_b_app_resources_20180726"
DEPLOY = "scheduling_preliminary_b_instance_deploy_20180726"


def test_the_published_files_are_read_as_published(tmp_path: Path) -> None:
    """Cores and GiB, curves in one cell, no headers; those of set A as well."""
    expected = msgspec.structs.replace(load_trace(write_folder(tmp_path / "own", ALIBABA)), name="published")
    of_set_a = {name.replace("_b_", "_").replace("0726", "0606"): text for name, text in ALIBABA_PUBLISHED.items()}

    for tables in (ALIBABA_PUBLISHED, of_set_a):
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}" / "published"
        folder.parent.mkdir()
        assert_same(expected, load_trace(write_folder(folder, tables)))


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        (
            {RESOURCES: ALIBABA_PUBLISHED[RESOURCES].replace("4.5", "x")},
            r"line 1, cores\[1\]: 'x' is not a usage",
        ),
        ({RESOURCES: ALIBABA_PUBLISHED[RESOURCES].replace("|4.5", "")}, "line 1: curves of 1 and 2 steps"),
        ({RESOURCES: "app_1,1,1,1,1,1,1\n"}, "line 3: 'app_2' has no row in .*app_resources"),
        ({DEPLOY: "i1,app_1,machine_9\n"}, "line 1: machine 'machine_9' is not in machine_resources"),
        ({DEPLOY: "i1,app_1\n"}, "line 1: 2 cells; expected instance, app, machine"),
        ({"scheduling_preliminary_instance_deploy_20180606": "x,y,\n"}, "keep the files of one set"),
    ],
)
def test_published_files_that_cannot_be_read_are_named(tmp_path: Path, changed: dict[str, str], error: str) -> None:
    """The error has the line."""
    with pytest.raises(TraceError, match=error):
        load_trace(write_folder(tmp_path, ALIBABA_PUBLISHED | changed))
