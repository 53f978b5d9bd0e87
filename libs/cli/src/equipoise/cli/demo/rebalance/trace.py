"""The trace of a demo with a campaign: more nodes, and a load that only moves change."""

import msgspec
import numpy as np

from equipoise.lab.model.trace import Trace

NEW_NODES = 10


def with_new_nodes(trace: Trace, number: int = NEW_NODES) -> Trace:
    """The trace with more nodes, which are like its first ones."""
    new = tuple(
        msgspec.structs.replace(trace.nodes[index % len(trace.nodes)], name=f"new-{index:02d}")
        for index in range(number)
    )
    return msgspec.structs.replace(trace, nodes=(*trace.nodes, *new))


def with_constant_usage(trace: Trace) -> Trace:
    """The trace with the mean usage of each workload in every step: what changes is caused by moves, and not by the
    time of day."""
    cpu, memory = (
        np.repeat(usage.mean(axis=1, keepdims=True), trace.steps, axis=1)
        for usage in (trace.cpu_milli, trace.memory_mib)
    )
    return msgspec.structs.replace(trace, cpu_milli=cpu, memory_mib=memory)
