"""The format of the Bitbrains trace."""

import math
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lab.trace_folders import BITBRAINS, BITBRAINS_PUBLISHED, assert_same, write_folder

from equipoise.lab.formats import TraceError, load_trace


def test_each_machine_is_a_workload_with_one_pod_and_no_node(tmp_path: Path) -> None:
    """The data contain no hosts."""
    trace = load_trace(write_folder(tmp_path, BITBRAINS))

    assert [("vm1", 0, ""), ("vm2", 1, "")] == [(pod.name, pod.workload, pod.node) for pod in trace.pods]
    assert [2_000, 1_000] == [workload.limit_cpu_milli for workload in trace.workloads]
    assert [1_000, 3_000] == [workload.request_memory_mib for workload in trace.workloads]
    assert (300.0, 1_375_308_000.0) == (trace.seconds_per_step, trace.starts_at)


def test_gaps_are_filled_with_the_mean_and_unmeasured_machines_are_omitted(tmp_path: Path) -> None:
    """Missing values are never 0."""
    trace = load_trace(write_folder(tmp_path, BITBRAINS))

    assert [[100.0, 550.0, 1_000.0], [50.0, 150.0, 100.0]] == trace.cpu_milli.tolist()
    assert any("omitted because" in note and "vm3" in note for note in trace.notes)


@pytest.mark.parametrize(("requested", "count"), [(None, 25), (0, 25), (4, 4)])
def test_equal_nodes_are_invented(tmp_path: Path, requested: int | None, count: int) -> None:
    """The peak usage is 55 % of their CPU. A note mentions it."""
    trace = load_trace(write_folder(tmp_path, BITBRAINS), nodes=requested)

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
def test_the_largest_machine_fits_on_the_least_filled_node(machines: list[tuple[int, int]], count: int) -> None:
    """By CPU and by memory, even as the last one. At most 80 % is requested."""
    names = [f"vm{index}" for index in range(len(machines))]
    tables = {
        "pods": "pod_id,cpu_provisioned_milli,memory_provisioned_mib\n"
        + "".join(f"{name},{cpu},{memory}\n" for name, (cpu, memory) in zip(names, machines, strict=True)),
        "cpu_milli": f"time,{','.join(names)}\n"
        + "".join(f"{at},{','.join(['700'] * len(names))}\n" for at in (0, 60)),
        "memory_mib": f"time,{','.join(names)}\n" + "".join(f"{at},{','.join(['1'] * len(names))}\n" for at in (0, 60)),
    }
    with TemporaryDirectory() as folder:
        trace = load_trace(write_folder(Path(folder), tables), nodes=count)
    node = trace.nodes[0]
    cpu = [workload.request_cpu_milli for workload in trace.workloads]
    memory = [workload.request_memory_mib for workload in trace.workloads]

    assert (sum(cpu) - max(cpu)) / count + max(cpu) <= node.cpu_milli
    assert (sum(memory) - max(memory)) / count + max(memory) <= node.memory_mib
    assert sum(cpu) <= 0.8 * node.cpu_milli * count
    assert sum(memory) <= 0.8 * node.memory_mib * count


def test_the_published_files_are_read_as_published(tmp_path: Path) -> None:
    """MHz and KB, a file per machine, readings at uneven times, in seconds or milliseconds; a gap is no value."""
    two = {
        "pods": BITBRAINS["pods"].rsplit("vm3", 1)[0],
        **{table: BITBRAINS[table].replace(",vm3", "") for table in ("cpu_milli", "memory_mib")},
    }
    two = {name: "\n".join(line.rstrip(",") for line in text.splitlines()) + "\n" for name, text in two.items()}
    two["memory_mib"] = (
        two["memory_mib"].replace("10,20,5", "10,20").replace("30,20,5", "30,20").replace("20,20,5", "20,20")
    )
    expected = load_trace(write_folder(tmp_path / "own", two))
    in_milliseconds = {
        name: re.sub(r"^(13\d{8});", r"\g<1>000;", text, flags=re.MULTILINE)
        for name, text in BITBRAINS_PUBLISHED.items()
    }

    for number, tables in enumerate((BITBRAINS_PUBLISHED, in_milliseconds)):
        found = load_trace(write_folder(tmp_path / str(number), tables))
        assert_same(msgspec.structs.replace(expected, name=str(number)), found)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a;b\n1;2\n", "missing column Timestamp"),
        (BITBRAINS_PUBLISHED["1"].replace("1375308001", ""), "line 2: Timestamp .ms. is empty"),
        (BITBRAINS_PUBLISHED["1"].replace("292.6", "many"), "line 2, CPU usage .MHZ.: 'many' is not a usage value"),
        (BITBRAINS_PUBLISHED["1"].replace("1375308001", "1"), "steps of 300 s, more than 40000"),
    ],
)
def test_published_files_that_cannot_be_read_are_named(tmp_path: Path, text: str, error: str) -> None:
    """The error has the line."""
    with pytest.raises(TraceError, match=error):
        load_trace(write_folder(tmp_path, BITBRAINS_PUBLISHED | {"1": text}))
