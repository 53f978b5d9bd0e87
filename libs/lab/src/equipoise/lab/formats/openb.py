"""The folder format of the inventory of a GPU cluster (Alibaba clusterdata, gpu-v2023). It has no usage or placements.

`openb_nodes` has the columns node_id, cpu_milli, memory_mib and gpu (the number of GPUs). `openb_pods` has pod_id,
cpu_request_milli, memory_request_mib, num_gpu, gpu_milli (of each GPU) and qos. Other columns are ignored.
"""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np

from equipoise.lab.formats.draft import DraftPod, TraceDraft, natural_order
from equipoise.lab.formats.tables import CurveTable, Row, TraceError, path_of, read_rows
from equipoise.lab.model.trace import Trace, TraceNode, TraceWorkload

FILES: tuple[str, ...] = ("openb_nodes.csv.gz", "openb_pods.csv.gz")

SECONDS_PER_STEP = 900.0
STEPS = 96
"""One day, which repeats."""

GPU = "alibabacloud.com/gpu-milli"
"""Extended resource: thousandths of a GPU."""

PRIORITIES: Mapping[str, int] = {"LS": 9_000, "Guaranteed": 9_000, "Burstable": 7_000, "BE": 5_000}
"""The lowest priorities of koord-prod, koord-mid and koord-batch of Koordinator, by QoS class."""

Item = TypeVar("Item", TraceNode, TraceWorkload)


def read(folder: Path, *, nodes: int | None = None, seed: int = 1) -> Trace:
    """The trace of a folder. All pods exist at the same time, each with a workload of its own and without a node.

    With `nodes`, the trace has this many of the nodes and the same share of the pods, both sampled with `seed`. Raises
    TraceError.
    """
    return read_tables(folder, "openb_nodes", "openb_pods", nodes=nodes, seed=seed)


def read_tables(
    folder: Path,
    node_table: str,
    pod_table: str,
    *,
    node_names: Mapping[str, str] | None = None,
    pod_names: Mapping[str, str] | None = None,
    nodes: int | None = None,
    seed: int = 1,
) -> Trace:
    """The trace of tables with these names, as in `read`. `node_names` and `pod_names` rename their columns.

    They are the argument `other_names` of `read_rows`.
    """
    all_nodes, all_pods = _nodes(folder, node_table, node_names), _workloads(folder, pod_table, pod_names)
    if not all_nodes:
        raise TraceError(f"{path_of(folder, node_table)} has no nodes; add at least one")
    chosen, workloads = list(all_nodes), list(all_pods)
    if nodes and nodes < len(all_nodes):
        if nodes < 0:
            raise TraceError(f"{nodes} nodes were requested; request 1 to {len(all_nodes)}, or 0 for all")
        generator = random.Random(seed)
        chosen = _sampled(all_nodes, nodes, generator)
        workloads = _sampled(all_pods, round(len(all_pods) * nodes / len(all_nodes)), generator)
    trace = TraceDraft(
        name=folder.resolve().name,
        nodes=chosen,
        workloads={workload.name: workload for workload in workloads},
        pods=[DraftPod(name=workload.name, workload=workload.name) for workload in workloads],
        seconds_per_step=SECONDS_PER_STEP,
        notes=_notes(chosen, workloads, len(all_nodes), seed),
    ).trace(
        _constant(path_of(folder, pod_table), {workload.name: workload.request_cpu_milli for workload in workloads}),
        _constant(path_of(folder, pod_table), {workload.name: workload.request_memory_mib for workload in workloads}),
    )
    return msgspec.structs.replace(trace, gaps=np.ones((2, *trace.cpu_milli.shape), dtype=np.bool_))


def _nodes(folder: Path, table: str, names: Mapping[str, str] | None) -> list[TraceNode]:
    columns = ("node_id", "cpu_milli", "memory_mib", "gpu")
    seen: set[str] = set()
    return [
        TraceNode(
            name=row.new_name("node_id", seen),
            cpu_milli=row.integer("cpu_milli", least=1),
            memory_mib=row.integer("memory_mib", least=1),
            extended_resources=_gpus(row.integer("gpu") * 1_000),
        )
        for row in read_rows(folder, table, columns, ignore_others=True, other_names=names)
    ]


def _workloads(folder: Path, table: str, names: Mapping[str, str] | None) -> list[TraceWorkload]:
    seen: set[str] = set()
    columns = ("pod_id", "cpu_request_milli", "memory_request_mib", "num_gpu", "gpu_milli", "qos")
    return [
        TraceWorkload(
            name=row.new_name("pod_id", seen),
            request_cpu_milli=row.integer("cpu_request_milli"),
            request_memory_mib=row.integer("memory_request_mib"),
            priority=_priority(row),
            extended_resources=_gpus(row.integer("num_gpu") * row.integer("gpu_milli")),
        )
        for row in read_rows(folder, table, columns, ignore_others=True, other_names=names)
    ]


def _gpus(thousandths: int) -> dict[str, int]:
    return {GPU: thousandths} if thousandths else {}


def _priority(row: Row) -> int:
    if (qos := row.cells["qos"]) not in PRIORITIES:
        raise row.error(f"qos is {qos!r}; write one of {', '.join(PRIORITIES)}")
    return PRIORITIES[qos]


def _sampled(items: Sequence[Item], count: int, generator: random.Random) -> list[Item]:
    """A random sample of this many items, in their order."""
    names = set(generator.sample(sorted((item.name for item in items), key=natural_order), count))
    return [item for item in items if item.name in names]


def _constant(path: Path, amounts: Mapping[str, int]) -> CurveTable:
    rows = {name: np.full(STEPS, float(amount)) for name, amount in amounts.items()}
    return CurveTable(path=path, steps=STEPS, rows=rows)


def _notes(nodes: Sequence[TraceNode], pods: Sequence[TraceWorkload], total: int, seed: int) -> list[str]:
    cpu = _share(sum(pod.request_cpu_milli for pod in pods), sum(node.cpu_milli for node in nodes))
    requested_gpu = sum(pod.extended_resources.get(GPU, 0) for pod in pods)
    gpu = _share(requested_gpu, sum(node.extended_resources.get(GPU, 0) for node in nodes))
    notes = [
        "usage is assumed to equal the requests at all times: the trace has none, and figures of load are figures of "
        "requests",
        f"all {len(pods)} pods at the same time, whenever they existed: they request {cpu} of the CPU and {gpu} of the "
        "GPUs",
        f"GPUs are thousandths in total ({GPU}): which GPU of a node a pod uses, and the models of GPUs, are ignored",
        f"priorities by QoS class: {', '.join(f'{qos} {priority}' for qos, priority in PRIORITIES.items())}",
    ]
    if len(nodes) < total:
        notes.append(f"a slice: {len(nodes)} of {total} nodes and the same share of the pods, sampled with seed {seed}")
    return notes


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "0%"
