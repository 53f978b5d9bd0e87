"""The format of the GPU cluster openb: requests, GPUs and priorities, without usage and placement."""

import gzip
from pathlib import Path

import msgspec
import pytest
from lab.trace_folders import OPENB, OPENB_PUBLISHED, assert_same, by_name, write_folder

from equipoise.lab.formats import TraceError, load_trace
from equipoise.lab.model.trace import TraceNode, TracePod, TraceWorkload
from equipoise.lab.replay import Replay
from equipoise.lab.replay_plan import ReplayPlan

GPU = "alibabacloud.com/gpu-milli"


def test_nodes_and_pods_are_read_with_their_gpus(tmp_path: Path) -> None:
    """In thousandths: of all GPUs of a node, and of all that a pod requests."""
    trace = load_trace(write_folder(tmp_path, OPENB))

    assert (
        TraceNode(name="n1", cpu_milli=8_000, memory_mib=16_384, extended_resources={GPU: 2_000}),
        TraceNode(name="n2", cpu_milli=4_000, memory_mib=8_192),
    ) == trace.nodes
    assert (
        TraceWorkload(
            name="p1",
            request_cpu_milli=6_000,
            request_memory_mib=2_048,
            priority=9_000,
            extended_resources={GPU: 2_000},
        )
        == by_name(trace)["p1"]
    )
    assert [{GPU: 2_000}, {GPU: 500}, {}, {}] == [each.extended_resources for each in trace.workloads]


def test_every_pod_is_a_workload_without_a_node(tmp_path: Path) -> None:
    """Whenever it existed."""
    pods = load_trace(write_folder(tmp_path, OPENB)).pods

    assert [TracePod(name=f"p{number + 1}", workload=number) for number in range(4)] == list(pods)


def test_usage_is_the_request_at_all_times(tmp_path: Path) -> None:
    """Of one day, which repeats. A note states this."""
    trace = load_trace(write_folder(tmp_path, OPENB))

    assert (96, 900.0) == (trace.steps, trace.seconds_per_step)
    assert [{6_000.0}, {1_000.0}, {500.0}, {250.0}] == [set(row) for row in trace.cpu_milli.tolist()]
    assert [{2_048.0}, {1_024.0}, {512.0}, {0.0}] == [set(row) for row in trace.memory_mib.tolist()]
    assert [note for note in trace.notes if "usage is assumed to equal the requests" in note]
    assert [note for note in trace.notes if "all 4 pods" in note and "65% of the CPU and 125% of the GPUs" in note]


def test_qos_classes_are_priorities(tmp_path: Path) -> None:
    """Latency-sensitive pods before burstable ones before best effort."""
    priorities = {name: each.priority for name, each in by_name(load_trace(write_folder(tmp_path, OPENB))).items()}

    assert {"p1": 9_000, "p2": 5_000, "p3": 7_000, "p4": 9_000} == priorities


def test_an_unknown_qos_class_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        TraceError, match=r"openb_pods.*line 2: qos is 'ls'; write one of LS, Guaranteed, Burstable, BE"
    ):
        load_trace(write_folder(tmp_path, OPENB | {"openb_pods": OPENB["openb_pods"].replace("LS", "ls", 1)}))


def test_a_slice_has_the_same_share_of_nodes_and_pods(tmp_path: Path) -> None:
    """In their order. Another seed gives another slice, and the same one the same."""
    folder = write_folder(tmp_path, OPENB)
    slices = [load_trace(folder, nodes=1, seed=seed) for seed in (1, 1, 2, 3, 4)]

    assert {(1, 2, 2)} == {(len(each.nodes), len(each.pods), len(each.workloads)) for each in slices}
    assert slices[0].pods == slices[1].pods
    assert 1 < len({each.pods for each in slices})
    assert any("a slice: 1 of 2 nodes and the same share of the pods" in note for note in slices[0].notes)
    assert 2 == len(load_trace(folder, nodes=5).nodes)
    with pytest.raises(TraceError, match="-1 nodes were requested; request 1 to 2, or 0 for all"):
        load_trace(folder, nodes=-1)


def test_a_latency_sensitive_pod_preempts_a_best_effort_one(tmp_path: Path) -> None:
    """Both do not fit on the node with GPUs: the best effort pod is unplaced, whichever is first."""
    trace = load_trace(write_folder(tmp_path, OPENB))
    runs = [Replay(trace, ReplayPlan(scenario="fresh", policy="stock", seed=seed)).run() for seed in range(6)]

    assert {(0, 1), (1, 1)} == {(run.figures.preempted, run.figures.unplaced) for run in runs}


NODES, PODS = OPENB_PUBLISHED.values()


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize(
    "tables",
    [
        OPENB_PUBLISHED,
        {"openb_node_list_all_node": NODES, "openb_pod_list_cpu050": PODS},
        OPENB_PUBLISHED | {"openb_pod_list_cpu050": "name\n", "openb_node_list_all_node": "sn\n"},
        {"openb_node_list_gpu_node": "\ufeff" + NODES, "openb_pod_list_default": PODS.replace("\n", "\r\n")},
    ],
    ids=["default", "other lists", "several lists", "byte order mark"],
)
def test_the_published_files_are_read_as_published(tmp_path: Path, tables: dict[str, str], compressed: bool) -> None:
    """With their columns and names; of several lists the default one."""
    folder = write_folder(tmp_path / "published", tables)
    if not compressed:
        for path in list(folder.iterdir()):
            path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
            path.unlink()
    same = write_folder(tmp_path / "openb", OPENB)

    assert_same(msgspec.structs.replace(load_trace(same), name="published"), load_trace(folder))


@pytest.mark.parametrize(
    ("tables", "error"),
    [
        ({"openb_node_list_gpu_node": NODES}, "format openb-published, but openb_pod_list_default.csv.gz is missing"),
        (
            {"openb_node_list_gpu_node": NODES, "openb_pod_list_a": PODS, "openb_pod_list_b": PODS},
            "has openb_pod_list_a, openb_pod_list_b; keep one of them, or add openb_pod_list_default.csv.gz",
        ),
        (
            OPENB_PUBLISHED | {"openb_pod_list_default": PODS.replace("6000", "6e3")},
            "line 2: cpu_request_milli is '6e3'",
        ),
        (OPENB_PUBLISHED | {"openb_node_list_gpu_node": "cpu_milli\n1\n"}, "missing column node_id, memory_mib, gpu"),
    ],
)
def test_published_files_that_cannot_be_read_are_named(tmp_path: Path, tables: dict[str, str], error: str) -> None:
    """The error states the fix."""
    with pytest.raises(TraceError, match=error):
        load_trace(write_folder(tmp_path, tables))
