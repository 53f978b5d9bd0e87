"""The pods of a run, their start on nodes of one instance type, and the nodes that their requests need."""

import heapq
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import ceil

import msgspec

from equipoise.cli.demo.example import example_trace
from equipoise.lab.model.trace import Trace, TraceNode
from equipoise.testbed.karpenter import InstanceType
from equipoise.testbed.placement import Placement

AGENT_MILLI, AGENT_MIB = 50, 64
"""The requests of the DaemonSet that runs on every node."""

INSTANCE_TYPE = InstanceType(name="standard-8", cpu_milli=8_000, memory_mib=32_768, price=0.40)
EXAMPLE_MILLI = 11_200
"""The cores per node for which the workloads of the example are made."""


def fleet(seed: int, nodes: int) -> Trace:
    """The workloads of the demo on equal nodes: about 70 % of the cores are requested, about 40 % are used.

    The most requested cores are of pods that use a tenth of them, and the most used ones of pods that request less than
    a tenth of their use.
    """
    example = example_trace(seed, nodes=round(nodes * INSTANCE_TYPE.cpu_milli / EXAMPLE_MILLI))
    equal = tuple(
        TraceNode(name=f"node-{number:03}", cpu_milli=INSTANCE_TYPE.cpu_milli, memory_mib=INSTANCE_TYPE.memory_mib)
        for number in range(nodes)
    )
    return msgspec.structs.replace(example, nodes=equal)


def requests(trace: Trace) -> list[tuple[int, int]]:
    """Millicores and MiB that each pod requests."""
    workloads = [trace.workloads[pod.workload] for pod in trace.pods]
    return [(workload.request_cpu_milli, workload.request_memory_mib) for workload in workloads]


def even_placement(trace: Trace, seed: int) -> Placement:
    """Each pod, in random order, on the node with the fewest requested cores, as kube-scheduler's default scores do."""
    order = list(trace.pods)
    random.Random(seed).shuffle(order)
    requested = [(0, node.name) for node in trace.nodes]
    nodes_of: Placement = defaultdict(list)
    for pod in order:
        workload = trace.workloads[pod.workload]
        cores, node = heapq.heappop(requested)
        nodes_of[f"{workload.namespace}/{workload.name}"].append(node)
        heapq.heappush(requested, (cores + workload.request_cpu_milli, node))
    return {name: sorted(nodes) for name, nodes in sorted(nodes_of.items())}


def on_nodes(start: Placement, names: Mapping[str, str]) -> Placement:
    """The same placement on nodes with other names."""
    return {workload: sorted(names[node] for node in nodes) for workload, nodes in start.items()}


def fewest_nodes(trace: Trace) -> tuple[int, int]:
    """A lower bound of the number of nodes that the requests of the pods need, and a number that is sufficient.

    If both are the same, it is the exact number. The lower bound is the larger one, by CPU and by memory, of the sum of
    all requests, and of the requests of which at most k fit on a node (S. Martello and P. Toth, Knapsack Problems,
    1990, chapter 8). The number that is sufficient is that of first fit, the largest requests first.
    """
    items = requests(trace)
    rooms = (trace.nodes[0].cpu_milli - AGENT_MILLI, trace.nodes[0].memory_mib - AGENT_MIB)
    bound = max(_least([item[resource] for item in items], rooms[resource]) for resource in range(len(rooms)))
    return bound, _first_fit(items, rooms)


def _least(sizes: Sequence[int], room: int) -> int:
    """The fewest nodes with this room, by one resource."""
    by_number = (ceil(sum(size * (most + 1) > room for size in sizes) / most) for most in range(1, len(sizes) + 1))
    return max(ceil(sum(sizes) / room), *by_number)


def _first_fit(items: Sequence[tuple[int, int]], rooms: tuple[int, int]) -> int:
    left: list[list[int]] = []
    for cpu, memory in sorted(items, key=lambda item: -max(item[0] / rooms[0], item[1] / rooms[1])):
        node = next((node for node in left if node[0] >= cpu and node[1] >= memory), None)
        if node is None:
            left.append(node := list(rooms))
        node[0] -= cpu
        node[1] -= memory
    return len(left)
