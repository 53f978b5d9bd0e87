"""The generated example trace: two days of a small cluster with wrong requests. The folder `trace` contains it.

`python -m equipoise.lab.example` writes the folder again; a test compares them.
"""

import math
import random
from pathlib import Path

import numpy as np

from equipoise.contracts.kubernetes.objects.pod import Toleration
from equipoise.lab.model.trace import (
    AntiAffinity,
    Trace,
    TraceNode,
    TracePod,
    TraceTaint,
    TraceWorkload,
)

FOLDER = Path(__file__).parent / "trace"
"""The included trace."""

DAYS = 2
STEPS_PER_DAY = 96
STARTS_AT = 1_767_571_200.0
"""Monday, 5 January 2026, midnight UTC."""

KINDS = (
    # name, workloads, replicas, request (milli, MiB), mean use (milli), use of memory (share of request), day's swing
    ("reserve", 6, (7, 10), (1600, 3072), (60, 260), (0.25, 0.50), 0.30),  # idle, with high requests
    ("service", 16, (7, 11), (350, 2048), (100, 320), (0.70, 0.95), 0.35),
    ("engine", 10, (3, 6), (250, 1536), (500, 1200), (0.60, 0.90), 0.25),  # busy, with low requests
    ("batch", 6, (6, 9), (200, 1024), (100, 320), (0.40, 0.80), 0.60),  # busy at night
    ("gateway", 1, (12, 12), (500, 1024), (500, 500), (0.80, 0.80), 0.40),  # at most one per node
    ("trainer", 1, (4, 4), (1500, 4096), (1400, 1400), (0.90, 0.90), 0.10),  # tolerates the taint of the dedicated node
)

TAINT = TraceTaint(key="dedicated", value="training")
TOLERATION = Toleration(key="dedicated", value="training")


def example_trace(seed: int = 1) -> Trace:
    """20 nodes of two sizes with some 300 pods of 40 workloads; the same seed gives the same trace.

    The pods are placed as by the stock scheduler: by their requests.
    """
    chooser = random.Random(seed)
    nodes = (
        *(TraceNode(name=f"small-{index:02d}", cpu_milli=8_000, memory_mib=32_768) for index in range(1, 12)),
        TraceNode(name="small-12", cpu_milli=8_000, memory_mib=32_768, taints=(TAINT,)),
        *(TraceNode(name=f"large-{index:02d}", cpu_milli=16_000, memory_mib=65_536) for index in range(1, 9)),
    )
    workloads: list[TraceWorkload] = []
    replicas: list[int] = []
    cpu, memory = [], []
    for kind, count, some, (request_cpu, request_memory), mean_cpu, mean_memory, swing in KINDS:
        for index in range(1, count + 1):
            workloads.append(
                TraceWorkload(
                    name=f"{kind}-{index:02d}",
                    namespace="night" if kind == "batch" else "shop",
                    request_cpu_milli=request_cpu,
                    request_memory_mib=request_memory,
                    limit_cpu_milli=4 * request_cpu if kind == "service" else None,
                    limit_memory_mib=request_memory,
                    tolerations=(TOLERATION,) if kind == "trainer" else (),
                )
            )
            replicas.append(chooser.randint(*some))
            peak_hour = chooser.gauss(2.0 if kind == "batch" else 14.0, 1.5)
            cpu.append(_curve(chooser, chooser.uniform(*mean_cpu), peak_hour, swing))
            memory.append(_curve(chooser, chooser.uniform(*mean_memory) * request_memory, peak_hour, 0.04, noise=0.01))
    gateway = next(index for index, workload in enumerate(workloads) if workload.name.startswith("gateway"))
    return Trace(
        name="example",
        nodes=nodes,
        workloads=tuple(workloads),
        pods=_placed(chooser, nodes, workloads, replicas, gateway),
        rules=(AntiAffinity(beside=gateway, limited=gateway, most=1),),
        cpu_milli=np.array(cpu, dtype=np.float64),
        memory_mib=np.minimum(np.array(memory, dtype=np.float64), [[w.request_memory_mib] for w in workloads]),
        seconds_per_step=86_400 / STEPS_PER_DAY,
        starts_at=STARTS_AT,
        notes=(f"generated: the example of Equipoise, seed {seed}; nothing in it was measured",),
    )


def _curve(chooser: random.Random, mean: float, peak_hour: float, swing: float, *, noise: float = 0.06) -> list[int]:
    """Whole amounts. 1 + swing of the mean at the peak hour, 1 − swing twelve hours later; days differ."""
    days = [chooser.uniform(0.9, 1.1) if noise > 0.02 else 1.0 for _ in range(DAYS)]
    hours = (24 * step / STEPS_PER_DAY for step in range(DAYS * STEPS_PER_DAY))
    return [
        round(
            mean
            * days[int(hour // 24)]
            * (1.0 + swing * math.cos((hour - peak_hour) / 24 * 2 * math.pi))
            * chooser.uniform(1 - noise, 1 + noise)
        )
        for hour in hours
    ]


def _placed(
    chooser: random.Random,
    nodes: tuple[TraceNode, ...],
    workloads: list[TraceWorkload],
    replicas: list[int],
    alone: int,
) -> tuple[TracePod, ...]:
    """Places pods in random order on the feasible nodes with the lowest requests; at most one of `alone` per node.

    The resource with the higher share counts, as in the sum of kube-scheduler's scores.
    """
    arrivals = [index for index, count in enumerate(replicas) for _ in range(count)]
    chooser.shuffle(arrivals)
    requested = {node.name: (0, 0) for node in nodes}
    taken: set[str] = set()
    pods: list[TracePod] = []
    for index in arrivals:
        workload = workloads[index]
        shares = {}
        for node in nodes:
            cpu, memory = requested[node.name]
            share = (
                (cpu + workload.request_cpu_milli) / node.cpu_milli,
                (memory + workload.request_memory_mib) / node.memory_mib,
            )
            excluded = (node.taints and not workload.tolerations) or (index == alone and node.name in taken)
            if max(share) <= 1.0 and not excluded:
                shares[node.name] = max(share)
        name = min(shares, key=shares.__getitem__)
        cpu, memory = requested[name]
        requested[name] = (cpu + workload.request_cpu_milli, memory + workload.request_memory_mib)
        if index == alone:
            taken.add(name)
        pods.append(TracePod(name=f"{workload.name}-{len(pods):03d}", workload=index, node=name))
    return tuple(pods)
