"""The load of every node beside what its pods request, and how uneven the nodes are. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from equipoise.cli.cluster_now.spread import Spread
from equipoise.cli.terminal import percent
from equipoise.collector.decisions.validation.usage import UnknownUsage
from equipoise.contracts.load.correction import RESOURCES, base_problem, load_of
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.values.pressure import NodePressure
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.cluster_node import ClusterNode

RESOURCE_NAMES = {"cpu": "CPU", "memory": "memory"}


class NodeNow(msgspec.Struct, frozen=True, kw_only=True):
    """The load of a node, and what its pods request."""

    node: str
    load: Resources
    """Real usage as a share (0..1) of what is allocatable, as the mean of the shortest window; None if unknown."""

    requested: Resources
    """Requests of its pods as a share of what is allocatable."""

    usage: Resources
    """Cores and bytes."""

    requests: Resources
    allocatable: Resources
    pods: int
    sampled_at: float | None = None
    """Time of the newest sample."""

    pressure: NodePressure | None = None
    """The share of time in which its processes wait; None if it is unknown. Without its pods."""

    unknown: str = ""
    """Why the load of CPU or memory is unknown; empty if both are known."""

    unknown_resources: dict[str, str] = {}
    """Why the load of further resources (`load.resources`) is unknown, by name."""

    no_target: str = ""
    """Why no pod may be moved to this node."""

    set_apart: str = ""
    """Why kube-scheduler places no ordinary pods on this node, so that it does not count for the spread."""


def nodes_now(
    nodes: Sequence[ClusterNode],
    placements: Mapping[str, NodePlacement],
    unknown: Mapping[str, UnknownUsage],
    not_expected: Mapping[str, str],
    window: str,
) -> list[NodeNow]:
    """The nodes in the order of `sort_key`.

    `unknown` and `not_expected` have the reason why a load is unknown, by node.
    """
    rows = []
    for node in nodes:
        requested, available = node.requested, node.allocatable
        requests = Resources(cpu=requested.get("cpu", 0.0), memory=requested.get("memory", 0.0))
        allocatable = Resources(cpu=available.get("cpu"), memory=available.get("memory"))
        why = unknown[node.name].text if node.name in unknown else not_expected.get(node.name, node.unknown)
        load = node.load(window)
        missing = [resource for resource in RESOURCES if getattr(load, resource) is None]
        rows.append(
            NodeNow(
                node=node.name,
                load=load,
                requested=load_of(requests, allocatable),
                usage=node.usage.get(window, Resources()),
                requests=requests,
                allocatable=allocatable,
                pods=len(node.occupying),
                sampled_at=node.sampled_at.get(window),
                pressure=None if node.pressure is None else msgspec.structs.replace(node.pressure, pods={}),
                unknown=(why or base_problem(node.base) or f"no value of {' and '.join(missing)}") if missing else "",
                unknown_resources={name: why for name, why in node.resources.items() if why},
                no_target=node.target_refusal,
                set_apart="" if node.name not in placements else placements[node.name].set_apart,
            )
        )
    return sorted(rows, key=sort_key)


def sort_key(node: NodeNow) -> tuple[bool, float, str]:
    """The key that sorts the most loaded node first, by its more loaded resource, and nodes of unknown load last."""
    loads = [load for resource in RESOURCES if (load := getattr(node.load, resource)) is not None]
    return not loads, -max(loads, default=0.0), node.node


def counted(nodes: Iterable[NodeNow]) -> list[NodeNow]:
    """The nodes that count for the spread: ordinary pods may be placed on them, and their load is known."""
    return [node for node in nodes if not node.set_apart and node.load != Resources()]


def known_text(nodes: Sequence[NodeNow]) -> str:
    """`known: 7 of 8 nodes`: the nodes whose CPU and memory load are known."""
    return f"known: {sum(not node.unknown for node in nodes)} of {len(nodes)} nodes"


def spread_text(spread: Spread) -> Iterator[str]:
    """A line about the spread and the mean of each resource."""
    for resource in RESOURCES:
        points, mean = getattr(spread.spread, resource), getattr(spread.mean, resource)
        name = RESOURCE_NAMES[resource]
        if mean is None:
            yield f"{name}: unknown"
        elif points is None:
            yield f"{name}: {percent(mean)}; one node has no spread"
        else:
            yield f"{name}: spread {100 * points:.1f} points (hottest − idlest node), mean {percent(mean)}"


def node_cells(node: NodeNow) -> Sequence[str]:
    """The cells of a node: name, load and requests of CPU, load and requests of memory, number of pods."""
    return (
        node.node, percent(node.load.cpu), percent(node.requested.cpu), percent(node.load.memory),
        percent(node.requested.memory), str(node.pods),
    )  # fmt: skip
