"""Small traces for the lab's tests."""

from collections.abc import Sequence

import numpy as np

from equipoise.lab.model.trace import AntiAffinity, Trace, TraceNode, TracePod, TraceTaint, TraceWorkload

QUARTER = 900.0


def a_trace(
    *,
    nodes: int = 4,
    curves: Sequence[Sequence[float]] = ((1_000.0,) * 96,),
    replicas: Sequence[int] = (4,),
    placed: Sequence[int] | None = None,
    request_cpu_milli: int = 500,
    memory_mib: float = 1_024.0,
    rules: tuple[AntiAffinity, ...] = (),
    tainted: Sequence[int] = (),
) -> Trace:
    """Nodes of 8 cores and 32 GiB; a workload per curve (milli cores). `placed`: nodes of the pods, in their order."""
    workloads = tuple(
        TraceWorkload(name=f"web-{number}", request_cpu_milli=request_cpu_milli, request_memory_mib=round(memory_mib))
        for number in range(len(curves))
    )
    owners = [workload for workload, count in enumerate(replicas) for _ in range(count)]
    places = ["" for _ in owners] if placed is None else [f"node-{node}" for node in placed]
    return Trace(
        name="test",
        nodes=tuple(
            TraceNode(
                name=f"node-{node}",
                cpu_milli=8_000,
                memory_mib=32_768,
                taints=(TraceTaint(key="reserved"),) if node in tainted else (),
            )
            for node in range(nodes)
        ),
        workloads=workloads,
        pods=tuple(
            TracePod(name=f"pod-{number}", workload=owner, node=place)
            for number, (owner, place) in enumerate(zip(owners, places, strict=True))
        ),
        rules=rules,
        cpu_milli=np.array(curves, dtype=np.float64),
        memory_mib=np.full((len(curves), len(curves[0])), memory_mib),
        seconds_per_step=QUARTER,
    )
