"""Formats of traces: each is read as it says, written as it is read, and refused where it is wrong."""

import gzip
import math
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from equipoise.contracts.kubernetes.objects import Toleration
from equipoise.lab.example import FOLDER, example_trace
from equipoise.lab.formats import FORMATS, TraceError, load_trace
from equipoise.lab.formats.folder import About, keys_of, write, write_about, write_curves, write_inventory
from equipoise.lab.formats.slices import drawn, natural
from equipoise.lab.model.trace import (
    AntiAffinity,
    Trace,
    TraceNode,
    TracePod,
    TraceTaint,
    TraceWorkload,
)

ALIBABA = {
    "nodes": "node_id,cpu_milli,memory_mib,disk_gib\n"
    "machine_1,32000,65536,9\nmachine_2,92000,294912,9\nmachine_3,32000,65536,9\n",
    "pods": "pod_id,app_id,node_id\ni1,app_1,machine_1\ni2,app_1,machine_2\ni3,app_2,machine_2\ni4,app_2,\n",
    "app_cpu_milli": "app_id,t0,t1\napp_1,500,4500\napp_2,,300\napp_3,1,1\n",
    "app_memory_mib": "app_id,t0,t1\napp_1,100,200\napp_2,50,50\napp_3,1,1\n",
    "anti_affinity": "app_a,app_b,max_b\napp_1,app_1,1\napp_1,app_2,0\napp_3,app_1,0\n",
}
BITBRAINS = {
    "pods": "pod_id,cpu_provisioned_milli,memory_provisioned_mib,mhz_per_core\n"
    "vm1,2000,1000,2926\nvm2,1000,3000,2600\nvm3,8000,64000,2600\n",
    "cpu_milli": "time,vm1,vm2,vm3\n1375308000,100,50,\n1375308300,,150,\n1375308600,1000,100,\n",
    "memory_mib": "time,vm1,vm2,vm3\n1375308000,10,20,5\n1375308300,30,20,5\n1375308600,20,20,5\n",
}
OWN = {
    "nodes": "name,cpu_milli,memory_mib\nn1,4000,8192\nn2,4000,8192\n",
    "workloads": "name,request_cpu_milli,request_memory_mib\nweb,100,200\njob,0,0\n",
    "pods": "name,workload,node\nweb-1,web,n1\nweb-2,web,\njob-1,job,n1\n",
    "cpu_milli": "workload,t0,t1,t2\nweb,10,,30\njob,5,5.5,6\n",
    "memory_mib": "workload,t0,t1,t2\nweb,100,110,120\njob,1,1,1\n",
    "anti_affinity": "beside,limited,most\nweb,web,2\n",
}
ABOUT = b'{"format": "equipoise.dev/trace/v1", "name": "small", "seconds_per_step": 900}'


def a_folder(folder: Path, tables: dict[str, str], about: bytes | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in tables.items():
        (folder / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode()))
    if about is not None:
        (folder / "trace.json").write_bytes(about)
    return folder


def assert_same(expected: Trace, actual: Trace) -> None:
    for field in expected.__struct_fields__:
        one, other = getattr(expected, field), getattr(actual, field)
        assert np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other, field


def by_name(trace: Trace) -> dict[str, TraceWorkload]:
    return {workload.name: workload for workload in trace.workloads}


# Which format


@pytest.mark.parametrize(("tables", "about", "steps"), [(ALIBABA, None, 2), (BITBRAINS, None, 3), (OWN, ABOUT, 3)])
def test_a_format_is_recognised_by_its_files(
    tmp_path: Path, tables: dict[str, str], about: bytes | None, steps: int
) -> None:
    """Nobody has to name it."""
    assert steps == load_trace(a_folder(tmp_path, tables, about)).steps


@pytest.mark.parametrize(
    ("tables", "about", "name"),
    [(ALIBABA, None, "alibaba"), (BITBRAINS, None, "bitbrains"), (OWN, ABOUT, "equipoise")],
)
def test_a_folder_that_lacks_a_file_is_told_which(
    tmp_path: Path, tables: dict[str, str], about: bytes | None, name: str
) -> None:
    """Whichever it is: one file too few does not make a folder look like another format."""
    for file in FORMATS[name].FILES:
        folder = a_folder(tmp_path / file, tables, about)
        (folder / file).unlink()

        with pytest.raises(TraceError, match=rf"format {name}, but {file} is missing"):
            load_trace(folder)


@pytest.mark.parametrize("folder", ["there", "nowhere"])
def test_a_folder_that_is_no_trace_is_told_what_traces_hold(tmp_path: Path, folder: str) -> None:
    """Every format with its files."""
    (tmp_path / "there").mkdir()

    with pytest.raises(TraceError, match=r"equipoise: trace\.json.*alibaba: nodes.*bitbrains: pods"):
        load_trace(tmp_path / folder)


# Slices


def nodes_of(count: int, *, cpu_milli: int = 1_000) -> list[TraceNode]:
    return [TraceNode(name=f"node-{cpu_milli}-{index}", cpu_milli=cpu_milli, memory_mib=1) for index in range(count)]


def test_a_slice_is_drawn_from_the_occupied_nodes_in_the_order_of_their_ids() -> None:
    """Half of it small, then half of it big, with one random.Random(seed): as others can draw it again."""
    small, big = nodes_of(30), nodes_of(30, cpu_milli=2_000)
    occupied = [*small[:25], *big[5:]]
    fleet = small + big
    random.Random(9).shuffle(fleet)

    chooser = random.Random(3)
    expected = {*chooser.sample([node.name for node in small[:25]], 6)}
    expected |= {*chooser.sample([node.name for node in big[5:]], 6)}
    actual = drawn(fleet, {node.name for node in occupied}, count=12, seed=3)

    assert expected == {node.name for node in actual}
    assert [node for node in fleet if node.name in expected] == [*actual]


def test_ids_are_ordered_as_people_count() -> None:
    """9 comes before 10, whatever stands round them."""
    names = ["machine_10", "machine_9", "machine_9b", "b-2", "b-02", "7"]

    assert ["7", "b-02", "b-2", "machine_9", "machine_9b", "machine_10"] == sorted(names, key=natural)


def test_where_one_size_has_too_few_the_other_gives_more() -> None:
    """A slice has as many nodes as were asked for."""
    fleet = nodes_of(3) + nodes_of(20, cpu_milli=2_000)

    chosen = drawn(fleet, {node.name for node in fleet}, count=10, seed=1)

    assert {1_000: 3, 2_000: 7} == Counter(node.cpu_milli for node in chosen)


@pytest.mark.parametrize("count", [None, 0, 5, 9])
def test_no_number_or_one_that_covers_all_is_all_nodes(count: int | None) -> None:
    """The empty ones too."""
    fleet = nodes_of(5)

    assert tuple(fleet) == drawn(fleet, set(), count=count, seed=1)


@pytest.mark.parametrize("count", [-1, 4])
def test_a_slice_that_cannot_be_drawn_says_what_can(count: int) -> None:
    """Empty nodes are none to draw from."""
    fleet = nodes_of(5)

    with pytest.raises(TraceError, match="3 of the 5 carry pods; ask for 3 at most"):
        drawn(fleet, {node.name for node in fleet[:3]}, count=count, seed=1)


# alibaba


def test_alibaba_requests_are_derived_and_said_so(tmp_path: Path) -> None:
    """The limit is the smallest size that covers the curve, the request half of it, memory the curve's maximum."""
    trace = load_trace(a_folder(tmp_path, ALIBABA))
    first = by_name(trace)["app-1"]

    assert (6_000, 3_000, 200) == (first.limit_cpu_milli, first.request_cpu_milli, first.request_memory_mib)
    assert any("derived requests" in note for note in trace.notes)


def test_alibaba_is_as_its_folder_says(tmp_path: Path) -> None:
    """All nodes, also the empty ones; the pods that are placed, and only workloads with such pods."""
    trace = load_trace(a_folder(tmp_path, ALIBABA))

    assert ["machine-1", "machine-2", "machine-3"] == [node.name for node in trace.nodes]
    assert (92_000, 294_912) == (trace.nodes[1].cpu_milli, trace.nodes[1].memory_mib)
    assert [("i1", "app-1", "machine-1"), ("i2", "app-1", "machine-2"), ("i3", "app-2", "machine-2")] == [
        (pod.name, trace.workloads[pod.workload].name, pod.node) for pod in trace.pods
    ]
    assert ["app-1", "app-2"] == [workload.name for workload in trace.workloads]
    assert [[500.0, 4_500.0], [300.0, 300.0]] == trace.cpu_milli.tolist()
    assert [[100.0, 200.0], [50.0, 50.0]] == trace.memory_mib.tolist()
    assert (900.0, 0.0) == (trace.seconds_per_step, trace.starts_at)


def test_alibaba_rules_hold_between_workloads_of_the_trace(tmp_path: Path) -> None:
    """Of one app beside itself the data allows one more than it says."""
    trace = load_trace(a_folder(tmp_path, ALIBABA))

    assert (AntiAffinity(beside=0, limited=0, most=2), AntiAffinity(beside=0, limited=1, most=0)) == trace.rules


def test_alibaba_without_rules_has_none(tmp_path: Path) -> None:
    """The file is one that a folder may lack."""
    tables = {name: text for name, text in ALIBABA.items() if name != "anti_affinity"}

    assert () == load_trace(a_folder(tmp_path, tables)).rules


def test_an_alibaba_slice_has_the_pods_of_its_nodes(tmp_path: Path) -> None:
    """And the workloads and rules of those pods."""
    tables = ALIBABA | {"pods": "pod_id,app_id,node_id\ni1,app_1,machine_1\ni2,app_2,machine_3\n"}

    for seed in range(8):
        trace = load_trace(a_folder(tmp_path, tables), nodes=1, seed=seed)
        (node,) = trace.nodes

        assert node.name in ("machine-1", "machine-3")
        assert {"machine-1": ["app-1"], "machine-3": ["app-2"]}[node.name] == [work.name for work in trace.workloads]
        assert [node.name] == [pod.node for pod in trace.pods]
        assert (node.name == "machine-1") == bool(trace.rules)
        assert any(f"1 of 3 nodes, drawn from the occupied ones with seed {seed}" in note for note in trace.notes)


def test_alibaba_keeps_one_day_of_its_steps(tmp_path: Path) -> None:
    """So that the day can repeat. A peak after it still counts for the requests."""
    header = "app_id," + ",".join(f"t{step}" for step in range(98)) + "\n"
    curve = ",".join(["100"] * 96 + ["200", "9000"])
    tables = ALIBABA | {
        "app_cpu_milli": f"{header}app_1,{curve}\napp_2,{curve}\n",
        "app_memory_mib": f"{header}app_1,{curve}\napp_2,{curve}\n",
    }
    trace = load_trace(a_folder(tmp_path, tables))

    assert (96, 4) == (trace.steps, trace.steps_per_hour)
    assert {100.0} == set(trace.cpu_milli.ravel())
    assert (12_000, 9_000) == (trace.workloads[0].limit_cpu_milli, trace.workloads[0].request_memory_mib)
    assert any("first 96 of 98 steps" in note for note in trace.notes)


# bitbrains


def test_bitbrains_machines_are_workloads_of_one_pod_without_a_place(tmp_path: Path) -> None:
    """The data knows no hosts."""
    trace = load_trace(a_folder(tmp_path, BITBRAINS))

    assert [("vm1", 0, ""), ("vm2", 1, "")] == [(pod.name, pod.workload, pod.node) for pod in trace.pods]
    assert [2_000, 1_000] == [workload.limit_cpu_milli for workload in trace.workloads]
    assert [1_000, 3_000] == [workload.request_memory_mib for workload in trace.workloads]
    assert (300.0, 1_375_308_000.0) == (trace.seconds_per_step, trace.starts_at)


def test_bitbrains_gaps_take_the_mean_and_silent_machines_are_left_out(tmp_path: Path) -> None:
    """Nothing is taken to use nothing because nobody looked."""
    trace = load_trace(a_folder(tmp_path, BITBRAINS))

    assert [[100.0, 550.0, 1_000.0], [50.0, 150.0, 100.0]] == trace.cpu_milli.tolist()
    assert any("left out" in note and "vm3" in note for note in trace.notes)


@pytest.mark.parametrize(("asked", "count"), [(None, 25), (0, 25), (4, 4)])
def test_bitbrains_nodes_are_invented_and_said_so(tmp_path: Path, asked: int | None, count: int) -> None:
    """Equal ones; the fleet's peak is 55 % of their CPU."""
    trace = load_trace(a_folder(tmp_path, BITBRAINS), nodes=asked)

    assert count == len({node.name for node in trace.nodes})
    assert 1 == len({(node.cpu_milli, node.memory_mib) for node in trace.nodes})
    assert math.ceil(1_100 / 0.55 / count) == trace.nodes[0].cpu_milli
    assert any("invented nodes" in note for note in trace.notes)


@given(
    machines=st.lists(st.tuples(st.integers(1, 32_000), st.integers(1, 600_000)), min_size=1, max_size=20),
    count=st.integers(1, 8),
)
@example(machines=[(1_000, 1_000)] * 20, count=1)
@settings(max_examples=40, deadline=None)
def test_on_invented_nodes_the_largest_machine_always_finds_room(machines: list[tuple[int, int]], count: int) -> None:
    """On the least filled node, of CPU and of memory, even when it comes last; and no more than 80 % is requested."""
    names = [f"vm{index}" for index in range(len(machines))]
    tables = {
        "pods": "pod_id,cpu_provisioned_milli,memory_provisioned_mib\n"
        + "".join(f"{name},{cpu},{memory}\n" for name, (cpu, memory) in zip(names, machines, strict=True)),
        "cpu_milli": f"time,{','.join(names)}\n"
        + "".join(f"{at},{','.join(['700'] * len(names))}\n" for at in (0, 60)),
        "memory_mib": f"time,{','.join(names)}\n" + "".join(f"{at},{','.join(['1'] * len(names))}\n" for at in (0, 60)),
    }
    with TemporaryDirectory() as folder:
        trace = load_trace(a_folder(Path(folder), tables), nodes=count)
    node = trace.nodes[0]
    cpu = [workload.request_cpu_milli for workload in trace.workloads]
    memory = [workload.request_memory_mib for workload in trace.workloads]

    assert (sum(cpu) - max(cpu)) / count + max(cpu) <= node.cpu_milli
    assert (sum(memory) - max(memory)) / count + max(memory) <= node.memory_mib
    assert sum(cpu) <= 0.8 * node.cpu_milli * count
    assert sum(memory) <= 0.8 * node.memory_mib * count


# Our own


def test_a_folder_by_hand_needs_no_more_than_names_and_amounts(tmp_path: Path) -> None:
    """What is left out has the defaults of the model."""
    trace = load_trace(a_folder(tmp_path, OWN, ABOUT))

    assert TraceNode(name="n1", cpu_milli=4_000, memory_mib=8_192) == trace.nodes[0]
    assert TraceWorkload(name="web", request_cpu_milli=100, request_memory_mib=200) == trace.workloads[0]
    assert TracePod(name="web-2", workload=0) == trace.pods[1]
    assert (AntiAffinity(beside=0, limited=0, most=2),) == trace.rules
    assert [[10.0, 20.0, 30.0], [5.0, 5.5, 6.0]] == trace.cpu_milli.tolist()


def test_a_slice_of_our_own_format(tmp_path: Path) -> None:
    """Pods of its nodes, workloads of its pods; a pod without a node is in no slice."""
    tables = OWN | {"pods": "name,workload,node\nweb-1,job,n2\nweb-2,web,\n"}

    trace = load_trace(a_folder(tmp_path, tables, ABOUT), nodes=1)

    assert ["n2"] == [node.name for node in trace.nodes]
    assert ["job"] == [workload.name for workload in trace.workloads]
    assert ["web-1"] == [pod.name for pod in trace.pods]
    assert [[5.0, 5.5, 6.0]] == trace.cpu_milli.tolist()
    assert () == trace.rules


def test_a_workload_that_was_never_read_is_left_out_with_its_pods(tmp_path: Path) -> None:
    """And its rules; the notes say so."""
    tables = OWN | {"memory_mib": "workload,t0,t1,t2\nweb,,,\njob,1,1,1\n"}

    trace = load_trace(a_folder(tmp_path, tables, ABOUT))

    assert (["job"], ["job-1"]) == ([work.name for work in trace.workloads], [pod.name for pod in trace.pods])
    assert () == trace.rules
    assert any("left out" in note and "1 (web), pods 2" in note for note in trace.notes)


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"], exclude_characters="/"), min_size=1)
ODD_NAMES = NAMES | st.sampled_from(['a,b"c', " web ", "名", "'", '"', "#", "-1", "t0"])
AMOUNTS = st.integers(0, 10**12)
USAGE = st.floats(0.0, 1e300)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    nodes = draw(
        st.lists(
            st.builds(
                TraceNode,
                name=ODD_NAMES,
                cpu_milli=st.integers(1, 10**9),
                memory_mib=st.integers(1, 10**9),
                pods=AMOUNTS,
                taints=st.lists(st.builds(TraceTaint, key=NAMES, value=st.text()), max_size=2).map(tuple),
            ),
            max_size=4,
            unique_by=lambda node: node.name,
        )
    )
    few = st.sampled_from(["web", "db"]) | ODD_NAMES
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
        cpu_milli=draw(curves),
        memory_mib=draw(curves),
        seconds_per_step=draw(st.floats(1.0, 86_400.0)),
        starts_at=draw(st.floats(-1e12, 1e12)),
        notes=tuple(draw(st.lists(st.text(st.characters(codec="utf-8")), max_size=3))),
    )


@given(traces())
@settings(max_examples=150, deadline=None)
def test_what_is_written_reads_the_same(trace: Trace) -> None:
    """Odd names, shared names, no nodes, no pods: all of it, to the last bit."""
    with TemporaryDirectory() as folder:
        write(trace, Path(folder))

        assert_same(trace, load_trace(Path(folder)))


def test_a_folder_can_be_written_over(tmp_path: Path) -> None:
    """Nothing of the old trace stays behind, no rule and no half file."""
    write(example_trace(), tmp_path)
    trace = msgspec.structs.replace(example_trace(2), rules=())
    write(trace, tmp_path)

    assert_same(trace, load_trace(tmp_path))
    assert {*FORMATS["equipoise"].FILES, "anti_affinity.csv.gz"} == {path.name for path in tmp_path.iterdir()}


def test_the_same_trace_makes_the_same_bytes(tmp_path: Path) -> None:
    """At any time and in any folder: a trace in version control changes when its content does."""
    first, second = tmp_path / "first", tmp_path / "second"
    write(example_trace(), first)
    write(example_trace(), second)

    assert {path.name: path.read_bytes() for path in first.iterdir()} == {
        path.name: path.read_bytes() for path in second.iterdir()
    }
    assert {b"\0\0\0\0"} == {path.read_bytes()[4:8] for path in first.glob("*.gz")}, "gzip's time"


def test_curves_are_written_one_at_a_time_and_gaps_stay_gaps(tmp_path: Path) -> None:
    """A recorder holds one workload's week in memory, and knows what it did not see."""
    workloads = [TraceWorkload(name="web"), TraceWorkload(name="db")]
    folder = a_folder(tmp_path, {})
    write_inventory(folder, nodes=[], workloads=workloads, pods=[])
    for table in ("cpu_milli", "memory_mib"):
        rows = ([float(index), math.nan, index + 2.0] for index in range(2))
        write_curves(folder, table, workloads=workloads, steps=3, curves=rows)
    with pytest.raises(TraceError, match=r"trace\.json is missing"):
        load_trace(folder)
    write_about(folder, About(name="recorded", seconds_per_step=60.0))

    assert (
        "workload,t0,t1,t2\nweb,0,,2\ndb,1,,3\n" == gzip.decompress((folder / "cpu_milli.csv.gz").read_bytes()).decode()
    )
    assert [[0.0, 1.0, 2.0], [1.0, 2.0, 3.0]] == load_trace(folder).cpu_milli.tolist()


def test_a_name_that_several_share_is_told_whole() -> None:
    """A short name where it is enough."""
    shared = TraceWorkload(name="web")
    workloads = [shared, msgspec.structs.replace(shared, namespace="test"), TraceWorkload(name="db")]

    assert ["default/Deployment/web", "test/Deployment/web", "db"] == keys_of(workloads)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"cpu_milli": np.array([[-1.0]])}, r"-1\.0 is no amount of usage"),
        ({"memory_mib": np.array([[math.inf]])}, "inf is no amount of usage"),
        ({"workloads": (TraceWorkload(name="a/b"),)}, "'a/b' is no name"),
        ({"workloads": (TraceWorkload(name="web", namespace="a\nb"),)}, r"'a\\nb' is no name"),
        ({"nodes": (TraceNode(name="", cpu_milli=1, memory_mib=1),)}, "'' is no name"),
        ({"pods": (TracePod(name="p", workload=0),) * 2}, "two things of one kind are called 'p'"),
        ({"workloads": (TraceWorkload(name="w"),) * 2}, "two things of one kind are called 'w'"),
    ],
)
def test_what_could_not_be_read_again_is_not_written(tmp_path: Path, change: dict[str, object], why: str) -> None:
    """The folder then lacks trace.json, and nobody takes it for a trace."""
    trace = Trace(
        name="small",
        nodes=(),
        workloads=(TraceWorkload(name="web"),),
        pods=(),
        cpu_milli=np.ones((1, 1)),
        memory_mib=np.ones((1, 1)),
        seconds_per_step=60.0,
    )

    with pytest.raises(TraceError, match=why):
        write(msgspec.structs.replace(trace, **change), tmp_path)
    assert not (tmp_path / "trace.json").exists()


# What is wrong, where


WRONG = [
    # format, table, its text, what the fault says
    ("alibaba", "nodes", "node,cpu_milli,memory_mib\n", r"nodes\.csv\.gz, line 1: no column node_id"),
    ("alibaba", "nodes", ALIBABA["nodes"].replace("machine_3", "machine_1"), "line 4: a second node_id 'machine_1'"),
    ("alibaba", "nodes", ALIBABA["nodes"].replace("92000", "92e3"), "line 3: cpu_milli is '92e3'; write a whole"),
    ("alibaba", "nodes", ALIBABA["nodes"].replace("92000", "0"), "line 3: cpu_milli is '0'.* 1 or more"),
    ("alibaba", "pods", ALIBABA["pods"].replace("i3,app_2", "i3,app_9"), "line 4: 'app_9' has no row in .*app_cpu_mil"),
    ("alibaba", "pods", ALIBABA["pods"].replace("machine_1", "machine_9"), "line 2: node_id 'machine_9' is not in"),
    ("alibaba", "pods", ALIBABA["pods"].replace("i2", "i1"), "line 3: a second pod_id 'i1'"),
    ("alibaba", "app_cpu_milli", "app_id,t0,t1\napp_1,5,x\napp_2,1,1\n", "cpu_milli.*line 2, t1: 'x' is not a usage"),
    ("alibaba", "app_cpu_milli", "app_id,t0,t1\napp_1,5,-1\napp_2,1,1\n", "line 2, t1: '-1' is not a usage value"),
    ("alibaba", "app_cpu_milli", "app_id,t0,t1\napp_1,nan,\napp_2,1,1\n", "line 2, t0: 'nan' is not a usage value"),
    ("alibaba", "app_cpu_milli", "app_id,t0,t1\napp_1,5,inf\napp_2,1,1\n", "line 2, t1: 'inf' is not a usage value"),
    ("alibaba", "app_cpu_milli", "app_id,t0,t2\n", "line 1: the columns must be app_id,t0,t1,…"),
    ("alibaba", "app_memory_mib", "app_id,t0,t1\napp_1,5\n", "memory_mib.*line 2: 2 cells, but the header has 3"),
    ("alibaba", "app_memory_mib", "app_id,t0\napp_1,5\napp_2,5\n", "memory_mib.*line 1: 1 steps where app_cpu_mill"),
    ("alibaba", "anti_affinity", "app_a,app_b,max_b\napp_1,app_1,\n", "anti_affinity.*line 2: max_b is ''"),
    ("bitbrains", "pods", BITBRAINS["pods"].replace("vm1,2000", "vm1,"), "pods.*line 2: cpu_provisioned_milli is ''"),
    ("bitbrains", "pods", BITBRAINS["pods"] + "vm4,1,1,1\n", "line 5: 'vm4' has no column in .*cpu_milli"),
    ("bitbrains", "cpu_milli", "time,vm1,vm2,vm9\n", r"cpu_milli\.csv\.gz, line 1: the columns must be time, then"),
    ("bitbrains", "cpu_milli", BITBRAINS["cpu_milli"].replace("8300", "8301"), "line 4, time: uneven steps"),
    ("bitbrains", "cpu_milli", BITBRAINS["cpu_milli"].replace("1375308300", ""), "line 3, time: '' is not a Unix time"),
    ("bitbrains", "cpu_milli", BITBRAINS["cpu_milli"].replace("150", "1,5"), "line 3: 5 cells, but the header has 4"),
    (
        "bitbrains",
        "memory_mib",
        BITBRAINS["memory_mib"].replace(",30", ",-30"),
        "memory_mib.*line 3, vm1: '-30' is not",
    ),
    ("bitbrains", "memory_mib", "time,vm1,vm2,vm3\n1,1,1,1\n2,1,1,1\n", "its times differ from those of cpu_milli"),
    ("bitbrains", "cpu_milli", "time,vm1,vm2,vm3\n1,1,1,1\n", "fewer than two rows"),
    (
        "bitbrains",
        "cpu_milli",
        "time,vm1,vm2,vm3\n1375308000,,,\n1375308300,,,\n1375308600,,,\n",
        "no machine has CPU usage",
    ),
    (
        "bitbrains",
        "cpu_milli",
        "time,vm1,vm2,vm3\n1375308000,0,0,\n1375308300,0,,\n1375308600,0,,\n",
        "no machine has CPU usage",
    ),
    ("equipoise", "nodes", "name,cpu_milli,memory_mib,cpus\n", r"nodes\.csv\.gz, line 1: columns unknown or twice"),
    ("equipoise", "nodes", 'name,cpu_milli,memory_mib,taints\nn1,1,1,"[{}]"\n', "line 2: taints: .*`key`.*JSON list"),
    (
        "equipoise",
        "workloads",
        OWN["workloads"].replace("job,0", "job,"),
        "line 3: request_cpu_milli is ''; write a whole",
    ),
    ("equipoise", "workloads", OWN["workloads"].replace("job", "web"), "line 3: a second name 'web'"),
    ("equipoise", "workloads", OWN["workloads"].replace("job", "a/b"), "line 3: name is 'a/b'; a name is printable"),
    ("equipoise", "pods", OWN["pods"].replace("job-1,job", "job-1,jbo"), "line 4: workload 'jbo' is not in workloads"),
    ("equipoise", "pods", OWN["pods"].replace(",n1", ",n9"), "line 2: node 'n9' is not in nodes"),
    ("equipoise", "cpu_milli", OWN["cpu_milli"] + "old,1,1,1\n", "cpu_milli.*line 4: an unknown workload 'old'"),
    ("equipoise", "cpu_milli", OWN["cpu_milli"] + "web,1,1,1\n", "cpu_milli.*line 4: a second row of 'web'"),
    ("equipoise", "cpu_milli", "workload,t0,t1,t2\nweb,1,1,1\n", r"workloads\.csv\.gz, line 3: 'job' has no row in"),
    ("equipoise", "memory_mib", OWN["memory_mib"].replace("110", " "), "memory_mib.*line 2, t1: ' ' is not a usage"),
    (
        "equipoise",
        "anti_affinity",
        "beside,limited,most\nweb,wbe,1\n",
        "anti_affinity.*line 2: limited 'wbe' is not in",
    ),
    ("equipoise", "pods", "", r"pods\.csv\.gz, line 1: the header is missing"),
]


@pytest.mark.parametrize(("name", "table", "text", "fault"), WRONG)
def test_a_fault_names_its_file_and_line(tmp_path: Path, name: str, table: str, text: str, fault: str) -> None:
    """Bad input is refused; it never reads as zero."""
    tables = {"alibaba": ALIBABA, "bitbrains": BITBRAINS, "equipoise": OWN}[name] | {table: text}

    with pytest.raises(TraceError, match=fault) as caught:
        load_trace(a_folder(tmp_path, tables, ABOUT if name == "equipoise" else None))
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: whole[: len(whole) // 2],
        gzip.decompress,
        lambda whole: gzip.compress(b"\xff"),
    ],
    ids=["cut off", "not packed", "not text"],
)
def test_a_damaged_file_is_named(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    """A download that broke off is not half a trace."""
    folder = a_folder(tmp_path, OWN, ABOUT)
    path = folder / "pods.csv.gz"
    path.write_bytes(damage(path.read_bytes()))

    with pytest.raises(TraceError, match=r"pods\.csv\.gz is not a complete gzip-compressed CSV"):
        load_trace(folder)


@pytest.mark.parametrize(
    ("about", "fault"),
    [
        (ABOUT.replace(b"v1", b"v2"), r"Invalid enum value 'equipoise\.dev/trace/v2'"),
        (ABOUT.replace(b"900", b"0"), "seconds_per_step"),
        (ABOUT.replace(b"name", b"nmae"), "nmae"),
        (b"{", "truncated"),
    ],
)
def test_a_wrong_description_is_refused(tmp_path: Path, about: bytes, fault: str) -> None:
    """A later version of the format is not guessed at."""
    with pytest.raises(TraceError, match=rf"trace\.json: .*{fault}"):
        load_trace(a_folder(tmp_path, OWN, about))


# The example


def test_the_example_that_ships_is_what_its_generator_makes() -> None:
    """If not: python -m equipoise.lab.example."""
    assert_same(example_trace(), load_trace(FOLDER))
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 200_000


@pytest.mark.parametrize("seed", range(1, 6))
def test_the_example_is_of_the_promised_size(seed: int) -> None:
    """20 nodes of two sizes, one of them tainted, some 300 pods of 40 workloads, two days, one rule."""
    trace = example_trace(seed)

    assert (20, 40, 192, 1) == (len(trace.nodes), len(trace.workloads), trace.steps, len(trace.rules))
    assert 280 <= len(trace.pods) <= 330
    assert 2 == len({node.cpu_milli for node in trace.nodes})
    assert 1 == sum(bool(node.taints) for node in trace.nodes)


@pytest.mark.parametrize("seed", range(1, 6))
def test_the_example_starts_from_a_placement_that_may_be(seed: int) -> None:
    """Requests fit, the taint and the rule are kept."""
    trace = example_trace(seed)
    for node in trace.nodes:
        here = [pod.workload for pod in trace.pods if pod.node == node.name]
        works = [trace.workloads[index] for index in here]

        assert sum(work.request_cpu_milli for work in works) <= node.cpu_milli
        assert sum(work.request_memory_mib for work in works) <= node.memory_mib
        assert not node.taints or all(work.tolerations for work in works)
        assert all(here.count(rule.limited) <= rule.most for rule in trace.rules)


@pytest.mark.parametrize("seed", range(1, 6))
def test_the_example_is_worth_levelling(seed: int) -> None:
    """About half used at its peak, which is by day; then the nodes' loads lie more than 40 points apart."""
    trace = example_trace(seed)
    use = dict.fromkeys((node.name for node in trace.nodes), np.zeros(trace.steps))
    for pod in trace.pods:
        use[pod.node] = use[pod.node] + trace.cpu_milli[pod.workload]
    fleet = np.sum([*use.values()], axis=0)
    peak = int(fleet.argmax())
    loads = [use[node.name][peak] / node.cpu_milli for node in trace.nodes]

    assert 0.40 <= fleet[peak] / sum(node.cpu_milli for node in trace.nodes) <= 0.70
    assert 9 <= peak % 96 / 4 <= 19
    assert max(loads) - min(loads) > 0.40


def test_the_example_is_the_same_for_the_same_seed() -> None:
    """And another for another."""
    assert_same(example_trace(3), example_trace(3))
    assert not np.array_equal(example_trace(3).cpu_milli, example_trace(4).cpu_milli)
