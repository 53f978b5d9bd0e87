"""A smaller cluster with the same mix of nodes."""

from collections import defaultdict

import msgspec

from equipoise.lab.model.trace import Trace, TraceNode


def with_fewer_nodes(trace: Trace, removed: int) -> Trace:
    """The trace without this number of nodes; their pods have no node then.

    About the same share of each kind of node (amounts, taints and zone) is removed, evenly over the order of the trace.
    If more nodes are removed, those of a smaller number are always among them.
    """
    if not removed:
        return trace
    kinds: defaultdict[object, list[TraceNode]] = defaultdict(list)
    for node in trace.nodes:
        kinds[
            node.cpu_milli,
            node.memory_mib,
            node.pods,
            node.taints,
            node.region,
            node.zone,
            *sorted(node.extended_resources.items()),
        ].append(node)
    order = [
        ((rank + 0.5) / len(nodes), nodes[place].name)
        for nodes in kinds.values()
        for rank, place in enumerate(_spread_out(len(nodes)))
    ]
    gone = {name for _, name in sorted(order)[:removed]}
    return msgspec.structs.replace(
        trace,
        nodes=tuple(node for node in trace.nodes if node.name not in gone),
        pods=tuple(msgspec.structs.replace(pod, node="") if pod.node in gone else pod for pod in trace.pods),
    )


def _spread_out(count: int) -> list[int]:
    """0 … count − 1, each far from those before it: the golden section of the sequence."""
    return sorted(range(count), key=lambda place: (place + 1) * 0.618_033_988_749_895 % 1.0)
