"""Equipoise's own format."""

import gzip
import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lab.trace_folders import ABOUT, OWN, assert_same, write_folder
from lab.traces import a_trace

from equipoise.contracts.bounds import MAX_BYTES
from equipoise.contracts.kubernetes.objects.metadata import LabelSelector, SelectorRequirement
from equipoise.contracts.kubernetes.objects.pod import Toleration
from equipoise.lab.example import example_trace
from equipoise.lab.formats import FORMATS, TraceError, load_trace
from equipoise.lab.formats.folder import keys_of, write
from equipoise.lab.model.trace import (
    AntiAffinity,
    TopologyKey,
    Trace,
    TraceBudget,
    TraceNode,
    TracePod,
    TraceSpreadConstraint,
    TraceTaint,
    TraceWorkload,
)


def test_optional_columns_have_the_defaults_of_the_model(tmp_path: Path) -> None:
    trace = load_trace(write_folder(tmp_path, OWN, ABOUT))

    assert TraceNode(name="n1", cpu_milli=4_000, memory_mib=8_192) == trace.nodes[0]
    assert TraceWorkload(name="web", request_cpu_milli=100, request_memory_mib=200) == trace.workloads[0]
    assert TracePod(name="web-2", workload=0) == trace.pods[1]
    assert (AntiAffinity(beside=0, limited=0, most=2),) == trace.rules
    assert [[10.0, 20.0, 30.0], [5.0, 5.5, 6.0]] == trace.cpu_milli.tolist()


def test_a_slice_contains_the_pods_of_its_nodes(tmp_path: Path) -> None:
    """And their workloads, and the budgets of these. Pods without a node are in no slice."""
    budgets = "name,workload,max_unavailable\nall,web,1\nall,job,1\nweb,web,1\n"
    tables = OWN | {"pods": "name,workload,node\nweb-1,job,n2\nweb-2,web,\n", "budgets": budgets}

    trace = load_trace(write_folder(tmp_path, tables, ABOUT), nodes=1)

    assert ["n2"] == [node.name for node in trace.nodes]
    assert ["job"] == [workload.name for workload in trace.workloads]
    assert ["web-1"] == [pod.name for pod in trace.pods]
    assert [[5.0, 5.5, 6.0]] == trace.cpu_milli.tolist()
    assert () == trace.rules
    assert (TraceBudget(name="all", workloads=(0,), max_unavailable=1),) == trace.budgets


def test_an_unmeasured_workload_is_omitted_with_its_pods_and_rules(tmp_path: Path) -> None:
    """A note mentions it."""
    tables = OWN | {"memory_mib": "workload,t0,t1,t2\nweb,,,\njob,1,1,1\n"}

    trace = load_trace(write_folder(tmp_path, tables, ABOUT))

    assert (["job"], ["job-1"]) == ([work.name for work in trace.workloads], [pod.name for pod in trace.pods])
    assert () == trace.rules
    assert any("omitted because" in note and "1 (web), pods 2" in note for note in trace.notes)


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"], exclude_characters="/"), min_size=1)

UNUSUAL_NAMES = NAMES | st.sampled_from(['a,b"c', " web ", "名", "'", '"', "#", "-1", "t0"])

AMOUNTS = st.integers(0, 10**12)

ZONES = st.sampled_from(["", "a", "eu-west-1.b_2"])

SPREAD = st.builds(
    TraceSpreadConstraint,
    max_skew=st.integers(1, 9),
    topology_key=st.sampled_from(get_args(TopologyKey)),
    when_unsatisfiable=st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
    label_selector=st.none()
    | st.just(LabelSelector(match_expressions=[SelectorRequirement(key="app", operator="Exists")])),
    min_domains=st.none() | st.integers(1, 9),
    node_taints_policy=st.sampled_from(["Honor", "Ignore"]),
    match_label_keys=st.sampled_from([[], ["pod-template-hash"]]),
)

RESOURCES = st.dictionaries(st.sampled_from(["nvidia.com/gpu", "ephemeral-storage", "hugepages-2Mi"]), AMOUNTS)

USAGE = st.floats(0.0, MAX_BYTES)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    nodes = draw(
        st.lists(
            st.builds(
                TraceNode,
                name=UNUSUAL_NAMES,
                cpu_milli=st.integers(1, 10**9),
                memory_mib=st.integers(1, 10**9),
                pods=AMOUNTS,
                taints=st.lists(st.builds(TraceTaint, key=NAMES, value=st.text()), max_size=2).map(tuple),
                zone=ZONES,
                region=ZONES,
                extended_resources=RESOURCES,
            ),
            max_size=4,
            unique_by=lambda node: node.name,
        )
    )
    few = st.sampled_from(["web", "db"]) | UNUSUAL_NAMES
    workloads = draw(
        st.lists(
            st.builds(
                TraceWorkload,
                name=few,
                namespace=few,
                kind=st.sampled_from(["Deployment", "StatefulSet"]),
                request_cpu_milli=AMOUNTS,
                request_memory_mib=AMOUNTS,
                limit_cpu_milli=st.none() | AMOUNTS,
                limit_memory_mib=st.none() | AMOUNTS,
                tolerations=st.lists(st.builds(Toleration, key=st.text()), max_size=2).map(tuple),
                topology_spread=st.lists(SPREAD, max_size=2).map(tuple),
                extended_resources=RESOURCES,
                gang=st.just("") | UNUSUAL_NAMES,
                start_cpu_milli=AMOUNTS,
                start_memory_mib=AMOUNTS,
                containers=st.lists(NAMES, max_size=2).map(tuple),
            ),
            min_size=1,
            max_size=5,
            unique_by=lambda workload: (workload.namespace, workload.kind, workload.name),
        )
    )
    number = st.integers(0, len(workloads) - 1)
    places = st.sampled_from(["", *(node.name for node in nodes)])
    pods = draw(
        st.lists(
            st.builds(TracePod, name=few, workload=number, node=places),
            max_size=8,
            unique_by=lambda pod: (workloads[pod.workload].namespace, pod.name),
        )
    )
    amount = st.integers(0, 9) | st.integers(0, 100).map("{}%".format)
    space = draw(st.sampled_from(workloads)).namespace
    of_space = st.sampled_from([n for n, workload in enumerate(workloads) if workload.namespace == space])
    selected = st.lists(of_space, min_size=1, max_size=3, unique=True).map(tuple)
    budget = st.builds(TraceBudget, name=few, workloads=selected, min_available=amount) | st.builds(
        TraceBudget, name=few, workloads=selected, max_unavailable=amount
    )
    steps = draw(st.integers(1, 5))
    curves = st.lists(
        st.lists(USAGE, min_size=steps, max_size=steps), min_size=len(workloads), max_size=len(workloads)
    ).map(np.array)
    return Trace(
        name=draw(st.text(st.characters(codec="utf-8"))),
        nodes=tuple(nodes),
        workloads=tuple(workloads),
        pods=tuple(pods),
        rules=tuple(
            draw(st.lists(st.builds(AntiAffinity, beside=number, limited=number, most=st.integers(0, 9)), max_size=3))
        ),
        budgets=tuple(draw(st.lists(budget, max_size=3, unique_by=lambda each: each.name))),
        cpu_milli=draw(curves),
        memory_mib=draw(curves),
        seconds_per_step=draw(st.floats(1.0, 86_400.0)),
        starts_at=draw(st.floats(-1e12, 1e12)),
        notes=tuple(draw(st.lists(st.text(st.characters(codec="utf-8")), max_size=3))),
    )


@given(traces())
@settings(max_examples=150, deadline=None)
def test_a_written_trace_is_read_unchanged(trace: Trace) -> None:
    """Including unusual and shared names, and traces without nodes or pods."""
    with TemporaryDirectory() as folder:
        write(trace, Path(folder))

        assert_same(trace, load_trace(Path(folder)))


def test_writing_replaces_an_existing_trace(tmp_path: Path) -> None:
    """Including its rules. No temporary file remains."""
    write(example_trace(), tmp_path)
    trace = msgspec.structs.replace(example_trace(2), rules=())
    write(trace, tmp_path)

    assert_same(trace, load_trace(tmp_path))
    assert {*FORMATS["equipoise"].FILES, "anti_affinity.csv.gz", "budgets.csv.gz"} == {
        path.name for path in tmp_path.iterdir()
    }


def test_writing_the_same_trace_gives_the_same_bytes(tmp_path: Path) -> None:
    """At any time and in any folder, for version control."""
    first, second = tmp_path / "first", tmp_path / "second"
    write(example_trace(), first)
    write(example_trace(), second)

    assert {path.name: path.read_bytes() for path in first.iterdir()} == {
        path.name: path.read_bytes() for path in second.iterdir()
    }
    assert {b"\0\0\0\0"} == {path.read_bytes()[4:8] for path in first.glob("*.gz")}, "the time in the gzip header"


def test_gaps_of_a_recording_are_empty_cells(tmp_path: Path) -> None:
    """A reader fills them with the mean of the row."""
    gap = np.array([[0.0, math.nan, 2.0], [1.0, math.nan, 3.0]])
    write(msgspec.structs.replace(a_trace(nodes=1, curves=gap.tolist(), replicas=(0, 0)), cpu_milli=gap), tmp_path)

    cells = gzip.decompress((tmp_path / "cpu_milli.csv.gz").read_bytes()).decode()
    assert "workload,t0,t1,t2\nweb-0,0,,2\nweb-1,1,,3\n" == cells
    trace = load_trace(tmp_path)
    assert [[0.0, 1.0, 2.0], [1.0, 2.0, 3.0]] == trace.cpu_milli.tolist()
    assert trace.gaps is not None
    assert [[[False, True, False]] * 2, [[False] * 3] * 2] == trace.gaps.tolist()
    write(trace, tmp_path / "again")
    assert cells == gzip.decompress((tmp_path / "again" / "cpu_milli.csv.gz").read_bytes()).decode()


def test_workloads_that_share_a_name_have_full_keys() -> None:
    """Others have their name."""
    shared = TraceWorkload(name="web")
    workloads = [shared, msgspec.structs.replace(shared, namespace="test"), TraceWorkload(name="db")]

    assert ["default/Deployment/web", "test/Deployment/web", "db"] == keys_of(workloads)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cpu_milli": np.array([[-1.0]])}, r"-1\.0 is not a usage value"),
        ({"memory_mib": np.array([[math.inf]])}, "inf is not a usage value"),
        ({"workloads": (TraceWorkload(name="a/b"),)}, "'a/b' is not a valid name"),
        ({"workloads": (TraceWorkload(name="web", namespace="a\nb"),)}, r"'a\\nb' is not a valid name"),
        ({"nodes": (TraceNode(name="", cpu_milli=1, memory_mib=1),)}, "'' is not a valid name"),
        ({"pods": (TracePod(name="p", workload=0),) * 2}, "duplicate name 'p'"),
        ({"workloads": (TraceWorkload(name="w"),) * 2}, "duplicate name 'w'"),
        ({"budgets": (TraceBudget(name="b", workloads=(0,), min_available=1),) * 2}, "duplicate name 'b'"),
        (
            {
                "workloads": (TraceWorkload(name="w"), TraceWorkload(name="v", namespace="other")),
                "budgets": (TraceBudget(name="b", workloads=(0, 1), min_available=1),),
            },
            "budget 'b' must have workloads of one namespace",
        ),
    ],
)
def test_an_invalid_trace_is_not_written(tmp_path: Path, change: dict[str, object], message: str) -> None:
    """trace.json is missing then, so the folder is incomplete."""
    trace = Trace(
        name="small",
        nodes=(),
        workloads=(TraceWorkload(name="web"),),
        pods=(),
        cpu_milli=np.ones((1, 1)),
        memory_mib=np.ones((1, 1)),
        seconds_per_step=60.0,
    )

    with pytest.raises(TraceError, match=message):
        write(msgspec.structs.replace(trace, **change), tmp_path)
    assert not (tmp_path / "trace.json").exists()


@pytest.mark.parametrize(
    ("about", "message"),
    [
        (ABOUT.replace(b"v1", b"v2"), r"Invalid enum value 'equipoise\.dev/trace/v2'"),
        (ABOUT.replace(b"900", b"0"), "seconds_per_step"),
        (ABOUT.replace(b"name", b"nmae"), "nmae"),
        (b"{", "truncated"),
    ],
)
def test_invalid_metadata_are_refused(tmp_path: Path, about: bytes, message: str) -> None:
    """Including another version of the format."""
    with pytest.raises(TraceError, match=rf"trace\.json: .*{message}"):
        load_trace(write_folder(tmp_path, OWN, about))
