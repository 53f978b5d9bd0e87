"""The figures of a run: how many nodes it needed, and what that cost the pods."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from equipoise.cli.demo.consolidation.history import History
from equipoise.testbed.ready_endpoints import ReadyEndpoints

HOT = 0.80
"""The load of a node above which its hours are counted."""

SAMPLES_PER_STEP = 2
"""How often the load of all nodes is computed in each step of the day."""


class UsedDay(msgspec.Struct, frozen=True, kw_only=True):
    """The use of the pods over a day, which repeats."""

    epoch: float
    """Unix seconds at which its first step begins."""

    step_seconds: float
    cpu_milli: Mapping[str, Sequence[float]]
    """Millicores that one pod uses in each step, by `namespace/name` of its Deployment."""

    @property
    def seconds(self) -> float:
        return self.step_seconds * len(next(iter(self.cpu_milli.values())))

    @property
    def hours_per_second(self) -> float:
        return 24 / self.seconds


class ConsolidationFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One run. Hours are those of the compressed day; seconds are real."""

    name: str
    hours: float
    nodes_before: int
    nodes_after: int
    fewest_nodes: int
    """The lower bound that the requests of the pods set."""

    sufficient_nodes: int
    """A number of nodes on which the requests fit."""

    node_hours: float
    price: float
    """The price of these node-hours."""

    evictions: int
    evictions_before: int
    """Evictions before these hours, while the day was measured."""

    missing_seconds: float
    """Seconds with fewer ready endpoints than replicas, summed over the Services."""

    hot_node_hours: float
    """Node-hours above 80 % of the cores."""

    hottest: float | None
    """The highest load of a node, in percent; None if the time is too short to know one. Nodes of kwok do not throttle
    their pods."""

    pending_pods: int
    """Pods for which kube-scheduler found no node at first."""

    pending_seconds: float
    """The seconds until they were bound, in total."""

    longest_pending: float


def figures(
    name: str,
    past: History,
    endpoints: ReadyEndpoints,
    day: UsedDay,
    *,
    begin: float,
    end: float,
    node_milli: float,
    price: float,
    needed: tuple[int, int],
) -> ConsolidationFigures:
    """The figures between two Unix times.

    `node_milli`: the cores of a node. `price`: the price of a node per hour. `needed`: the lower bound of the number of
    nodes, and a number that is sufficient.
    """
    factor = day.hours_per_second
    node_seconds = sum(node.within(begin, end) for node in past.nodes)
    loads = [load / node_milli for sample in _loads(past, day, begin, end) for load in sample.values()]
    pending = [span.within(begin, end) for span in past.pending if begin <= span.since < end]
    sample_seconds = day.step_seconds / SAMPLES_PER_STEP
    return ConsolidationFigures(
        name=name,
        hours=(end - begin) * factor,
        nodes_before=sum(node.since <= begin < node.until for node in past.nodes),
        nodes_after=sum(node.since <= end < node.until for node in past.nodes),
        fewest_nodes=needed[0],
        sufficient_nodes=needed[1],
        node_hours=node_seconds * factor,
        price=node_seconds * factor * price,
        evictions=sum(begin <= at < end for at in past.evictions),
        evictions_before=sum(at < begin for at in past.evictions),
        missing_seconds=sum(shortage.seconds for shortage in endpoints.shortages if begin <= shortage.since < end),
        hot_node_hours=sum(load > HOT for load in loads) * sample_seconds * factor,
        hottest=100 * max(loads) if loads else None,
        pending_pods=len(pending),
        pending_seconds=sum(pending),
        longest_pending=max(pending, default=0.0),
    )


def _loads(past: History, day: UsedDay, begin: float, end: float) -> Iterator[Mapping[str, float]]:
    """Used millicores of the nodes that have pods, at equal intervals."""
    seconds = day.step_seconds / SAMPLES_PER_STEP
    for number in range(int((end - begin) / seconds)):
        at = begin + (number + 0.5) * seconds
        used: defaultdict[str, float] = defaultdict(float)
        for pod in past.pods:
            if pod.since <= at < pod.until and (curve := day.cpu_milli.get(pod.workload)) is not None:
                used[pod.node] += curve[int((at - day.epoch) // day.step_seconds) % len(curve)]
        yield used
