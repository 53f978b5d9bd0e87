"""Detection of formats, and errors of all formats."""

import gzip
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from lab.trace_folders import ABOUT, ALIBABA, BITBRAINS, OPENB, OWN, write_folder

from equipoise.lab.formats import FORMATS, TraceError, load_trace


@pytest.mark.parametrize(
    ("tables", "about", "steps"), [(ALIBABA, None, 2), (BITBRAINS, None, 3), (OPENB, None, 96), (OWN, ABOUT, 3)]
)
def test_the_format_is_detected_by_the_files(
    tmp_path: Path, tables: dict[str, str], about: bytes | None, steps: int
) -> None:
    assert steps == load_trace(write_folder(tmp_path, tables, about)).steps


@pytest.mark.parametrize(
    ("tables", "about", "name"),
    [(ALIBABA, None, "alibaba"), (BITBRAINS, None, "bitbrains"), (OPENB, None, "openb"), (OWN, ABOUT, "equipoise")],
)
def test_a_missing_file_is_named_in_the_error(
    tmp_path: Path, tables: dict[str, str], about: bytes | None, name: str
) -> None:
    """The format is still detected, whichever file is missing."""
    for file in FORMATS[name].FILES:
        folder = write_folder(tmp_path / file, tables, about)
        (folder / file).unlink()

        with pytest.raises(TraceError, match=rf"format {name}, but {file} is missing"):
            load_trace(folder)


@pytest.mark.parametrize("folder", ["empty", "missing"])
def test_the_error_for_other_folders_lists_the_files_of_all_formats(tmp_path: Path, folder: str) -> None:
    (tmp_path / "empty").mkdir()

    with pytest.raises(TraceError, match=r"equipoise: trace\.json.*alibaba: nodes.*bitbrains: pods"):
        load_trace(tmp_path / folder)


def spreading(constraint: str) -> str:
    """A table of workloads of which the first has this constraint."""
    cell = f"[{constraint}]".replace('"', '""')
    return f'name,request_cpu_milli,request_memory_mib,topology_spread\nweb,1,1,"{cell}"\njob,0,0,\n'


OTHERS = "name,cpu_milli,memory_mib,extended_resources\n"
BUDGETS = "name,workload,min_available,max_unavailable\n"

INVALID = [
    # format, table, its text, error
    ("alibaba", "nodes", "node,cpu_milli,memory_mib\n", r"nodes\.csv\.gz, line 1: missing column node_id"),
    ("alibaba", "nodes", ALIBABA["nodes"].replace("machine_3", "machine_1"), "line 4: a second node_id 'machine_1'"),
    ("alibaba", "nodes", ALIBABA["nodes"].replace("92000", "92e3"), "line 3: cpu_milli is '92e3'; write an integer"),
    ("alibaba", "nodes", ALIBABA["nodes"].replace("92000", "0"), "line 3: cpu_milli is '0'.* 1 or more"),
    ("alibaba", "pods", ALIBABA["pods"].replace("i3,app_2", "i3,app_9"), "line 4: 'app_9' has no row in .*app_cpu_mil"),
    ("alibaba", "pods", ALIBABA["pods"].replace("machine_1", "machine_9"), "line 2: node_id 'machine_9' is not in"),
    ("alibaba", "pods", ALIBABA["pods"].replace("i2", "i1"), "line 3: a second pod_id 'i1'"),
    ("alibaba", "app_cpu_milli", "app_id,t0,t1\napp_1,5,x\napp_2,1,1\n", "cpu_milli.*line 2, t1: 'x' is not a usage"),
    ("alibaba", "app_cpu_milli", "app_id,t0,t1\napp_1,5,-1\napp_2,1,1\n", "line 2, t1: '-1' is not a usage value"),
    ("alibaba", "app_cpu_milli", "app_id,t0,t1\napp_1,nan,\napp_2,1,1\n", "line 2, t0: 'nan' is not a usage value"),
    (
        "alibaba",
        "app_cpu_milli",
        "app_id,t0,t1\napp_1,5,1e308\napp_2,1,1\n",
        "line 2, t1: '1e308' is not a usage value",
    ),
    ("alibaba", "app_cpu_milli", "app_id,t0,t1\napp_1,5,inf\napp_2,1,1\n", "line 2, t1: 'inf' is not a usage value"),
    ("alibaba", "app_cpu_milli", "app_id,t0,t2\n", "line 1: the columns must be app_id,t0,t1,…"),
    ("alibaba", "app_memory_mib", "app_id,t0,t1\napp_1,5\n", "memory_mib.*line 2: 2 cells, but the header has 3"),
    ("alibaba", "app_memory_mib", "app_id,t0\napp_1,5\napp_2,5\n", "memory_mib.*line 1: 1 steps, but app_cpu_mill"),
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
    ("equipoise", "nodes", "name,cpu_milli,memory_mib,cpus\n", r"nodes\.csv\.gz, line 1: unknown or duplicate columns"),
    ("equipoise", "nodes", 'name,cpu_milli,memory_mib,taints\nn1,1,1,"[{}]"\n', "line 2: taints: .*`key`.*JSON list"),
    (
        "equipoise",
        "nodes",
        "name,cpu_milli,memory_mib,zone\nn1,1,1,a b\n",
        "line 2: zone is 'a b'; write the value of a",
    ),
    (
        "equipoise",
        "workloads",
        OWN["workloads"].replace("job,0", "job,"),
        "line 3: request_cpu_milli is ''; write an integer",
    ),
    (
        "equipoise",
        "workloads",
        spreading('{"topologyKey": "rack"}'),
        "line 2: topology_spread: .*'rack'.*topologyKey.*write a JSON list .* kubernetes.io/hostname or topology",
    ),
    ("equipoise", "workloads", spreading('{"topologyKey": "kubernetes.io/hostname", "skew": 1}'), "line 2: .*`skew`"),
    (
        "equipoise",
        "workloads",
        spreading('{"topologyKey": "kubernetes.io/hostname", "maxSkew": 2147483648}'),
        "line 2: topology_spread: .*<= 2147483647",
    ),
    (
        "equipoise",
        "workloads",
        spreading('{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"tier": "a"}}}'),
        "line 2: topology_spread: a labelSelector .* app=web, kind=Deployment; leave it out",
    ),
    (
        "equipoise",
        "workloads",
        spreading('{"topologyKey": "kubernetes.io/hostname", "matchLabelKeys": ["version"]}'),
        "line 2: topology_spread: .*no label 'version'; matchLabelKeys may contain pod-template-hash",
    ),
    ("equipoise", "workloads", OWN["workloads"].replace("job", "web"), "line 3: a second name 'web'"),
    (
        "equipoise",
        "workloads",
        OWN["workloads"].replace("job", "a/b"),
        "line 3: name is 'a/b'; a name must be",
    ),
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
    ("openb", "openb_nodes", OPENB["openb_nodes"].replace(",2,T4", ",,T4"), "openb_nodes.*line 2: gpu is ''; write an"),
    ("openb", "openb_pods", OPENB["openb_pods"].replace("p2", "p1"), "openb_pods.*line 3: a second pod_id 'p1'"),
    ("openb", "openb_pods", OPENB["openb_pods"].replace("1,500", "1,0.5"), "line 3: gpu_milli is '0.5'; write an int"),
    (
        "equipoise",
        "nodes",
        OTHERS + 'n1,1,1,"{""gpu"": -1}"\n',
        "line 2: extended_resources: .*>= 0.*write a JSON object",
    ),
    ("equipoise", "nodes", OTHERS + 'n1,1,1,"{""cpu"": 1}"\n', "line 2: extended_resources: cpu has its own column"),
    (
        "equipoise",
        "nodes",
        OTHERS + 'n1,1,1,"{"""": 1}"\n',
        "line 2: extended_resources: '' is not the name of a resour",
    ),
    (
        "equipoise",
        "nodes",
        f"{OTHERS}n1,{'9' * 5_000},1,\n",
        "line 2: cpu_milli is '9*'; write an integer of 1 or more",
    ),
    (
        "openb",
        "openb_nodes",
        OPENB["openb_nodes"].splitlines()[0] + "\n",
        "openb_nodes.* has no nodes; add at least one",
    ),
    ("equipoise", "budgets", f"{BUDGETS}b,web,{'9' * 5_000},\n", "line 2: min_available is '9*'; write an integer"),
    ("equipoise", "budgets", f"{BUDGETS}b,wbe,1,\n", "budgets.*line 2: workload 'wbe' is not in workloads"),
    (
        "equipoise",
        "budgets",
        f"{BUDGETS}b,web,50 %,\n",
        "line 2: min_available is '50 %'; .* percentage from 0% to 100%",
    ),
    ("equipoise", "budgets", f"{BUDGETS}b,web,,101%\n", "line 2: max_unavailable is '101%'; write an integer"),
    ("equipoise", "budgets", f"{BUDGETS}b,web,,-1\n", "line 2: max_unavailable is '-1'; write an integer"),
    ("equipoise", "budgets", f"{BUDGETS}b,web,1,1\n", "line 2: write either min_available or max_unavailable"),
    ("equipoise", "budgets", f"{BUDGETS}b,web,,\n", "line 2: write either min_available or max_unavailable"),
    ("equipoise", "budgets", f"{BUDGETS}b,web,1,\nb,job,2,\n", "line 3: other amounts than in an earlier row"),
    ("equipoise", "budgets", f"{BUDGETS}b,web,1,\nb,web,1,\n", "line 3: a second row of workload 'web'"),
    ("equipoise", "budgets", f"{BUDGETS},web,1,\n", "line 2: name is ''; a name must be"),
    ("equipoise", "pods", "", r"pods\.csv\.gz, line 1: the header is missing"),
]


@pytest.mark.parametrize(("name", "table", "text", "message"), INVALID)
def test_an_error_contains_file_and_line(tmp_path: Path, name: str, table: str, text: str, message: str) -> None:
    """Invalid input is refused, never read as 0."""
    tables = {"alibaba": ALIBABA, "bitbrains": BITBRAINS, "equipoise": OWN, "openb": OPENB}[name] | {table: text}

    with pytest.raises(TraceError, match=message) as caught:
        load_trace(write_folder(tmp_path, tables, ABOUT if name == "equipoise" else None))
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: whole[: len(whole) // 2],
        gzip.decompress,
        lambda whole: gzip.compress(b"\xff"),
    ],
    ids=["truncated", "not compressed", "not text"],
)
def test_the_error_for_a_corrupt_file_contains_its_name(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    """For example an incomplete download."""
    folder = write_folder(tmp_path, OWN, ABOUT)
    path = folder / "pods.csv.gz"
    path.write_bytes(damage(path.read_bytes()))

    with pytest.raises(TraceError, match=r"pods\.csv\.gz is not a complete gzip-compressed CSV"):
        load_trace(folder)


def test_a_row_that_would_fill_the_memory_is_an_error_before_it_is_read(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "trace", ALIBABA)
    (folder / "pods.csv.gz").write_bytes(gzip.compress(b"pod_id,app_id,node_id\n" + 2**26 * b","))
    tracemalloc.start()
    try:
        with pytest.raises(TraceError, match=r"pods\.csv\.gz .*row 2 has more than 4194304 characters"):
            load_trace(folder)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 2**26


def test_a_row_of_many_lines_has_the_same_limit(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "trace", ALIBABA)
    (folder / "pods.csv.gz").write_bytes(gzip.compress(b"pod_id,app_id,node_id\n" + 2**20 * b'"\n",,,'))

    with pytest.raises(TraceError, match="row 2 has more than"):
        load_trace(folder)


def test_a_description_larger_than_any_valid_one_is_an_error(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "trace", OWN, b"[" * 2**25)

    with pytest.raises(TraceError, match=r"trace\.json cannot be read .*more than"):
        load_trace(folder)


def test_a_deeply_nested_description_is_an_error(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "trace", OWN, b'{"name":' + b"[" * 100_000)

    with pytest.raises(TraceError, match=r"trace\.json"):
        load_trace(folder)
