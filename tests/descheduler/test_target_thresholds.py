"""No strategy, consolidation included, fills a node above a threshold: of CPU and memory, of the number of pods, of
further resources, of production pods."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import pytest
from builders import GIB, NOW
from descheduler.cluster import moment
from descheduler.cluster_states import WINDOWS, a_cluster, a_node, a_pod, changed_node, names
from descheduler.waiting import resizing_pod
from hypothesis import given, note, settings
from hypothesis import strategies as st

from equipoise.contracts.configuration.settings import FurtherThresholds, ResourceThresholds, Thresholds
from equipoise.contracts.load.metric_rule import MetricRule
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.cluster import ClusterView
from equipoise.descheduler.decisions.cluster_node import ClusterNode, MovablePod
from equipoise.descheduler.decisions.consolidation.consolidation_settings import Consolidation
from equipoise.descheduler.decisions.planning.thresholds import filling
from equipoise.descheduler.decisions.strategies import STRATEGIES, Strategy
from equipoise.descheduler.decisions.strategies.bin_pack import BinPack
from equipoise.descheduler.decisions.strategies.level_day import LevelDay
from equipoise.descheduler.decisions.strategies.low_node_load import LowNodeLoad
from equipoise.descheduler.decisions.strategies.make_room import MakeRoom
from equipoise.descheduler.decisions.strategies.rules import MoveByRules
from equipoise.descheduler.state.consolidation.planner import consolidation_plan
from equipoise.descheduler.state.projection import Projection

THRESHOLDS = Thresholds(
    high=ResourceThresholds(cpu=65, memory=80, pods=60),
    low=ResourceThresholds(cpu=45, memory=60),
    prod_high=ResourceThresholds(cpu=30, pods=40),
    prod_low=ResourceThresholds(cpu=20),
    resources={"network": FurtherThresholds(high=70), "gpu": FurtherThresholds(high=50)},
)
FURTHER = ("network", "gpu")
CAPACITY = Resources(cpu=10.0, memory=64 * GIB, further=dict.fromkeys(FURTHER, 100.0))

SETTINGS: Mapping[str, Strategy] = {
    "bin_pack": BinPack(headroom=5),
    "level_day": LevelDay(threshold=0, min_gain=0),
    "make_room": MakeRoom(max_pods=3),
    "rules": MoveByRules(rules=(MetricRule(metric="memory", operator="GreaterThan", target=50),)),
    "low_node_load": LowNodeLoad(number_of_nodes=-1, min_load_reduction=0),
}
"""Settings with which more pods move than by default."""

Moves = list[tuple[MovablePod, str]]

PLANNERS = [*STRATEGIES, "consolidation"]


def moves_of(name: str, cluster: ClusterView) -> Moves:
    if name == "consolidation":
        plan = consolidation_plan(cluster, Consolidation(margin=0))
        return [(pod, target.name) for emptied in plan.nodes for pod, target in emptied.moves]
    strategy = SETTINGS.get(name) or STRATEGIES[name]()
    plan_of_strategy = strategy.plan(cluster, names(cluster))
    return [(move.pod, move.target) for move in (*plan_of_strategy.moves, *plan_of_strategy.later)]


def faults(name: str, cluster: ClusterView, moves: Moves) -> Iterator[str]:
    """The targets that are above a threshold after the whole plan. `level_day` may fill a node up to the load of its
    source in CPU and memory (`max_above_mean`); it has its own test."""
    projection = Projection(cluster, WINDOWS[0], production=True)
    for pod, target in moves:
        projection.move(pod, target)
    everything, production = filling(cluster.thresholds)
    assert production is not None
    own = ("cpu", "memory") if name == "level_day" else ()
    for node in cluster.nodes:
        arrived = [pod for pod, target in moves if target == node.name]
        if not arrived:
            continue
        load = projection.load(node)
        for resource, limit in everything.ceiling.items():
            if resource not in own and not load.get(resource, 1.0) <= limit + 1e-9:
                yield f"{node.name}: {resource} {load.get(resource)} > {limit}"
        if any(pod.production for pod in arrived):
            load = projection.production_load(node)
            for resource, limit in production.ceiling.items():
                if not load.get(resource, 1.0) <= limit + 1e-9:
                    yield f"{node.name}: {resource} of production {load.get(resource)} > {limit}"


def a_measured_node(name: str, pods: Sequence[MovablePod], *, unknown_gpu: bool = False) -> ClusterNode:
    """Its usage is that of its pods. It may have ten pods, and is old enough to be removed."""
    further = {name: sum(pod.usage.amount(name) or 0.0 for pod in pods) for name in FURTHER}
    resources = dict.fromkeys(FURTHER, "")
    if unknown_gpu:
        del further["gpu"]
        resources["gpu"] = "no sample"
    usage = Resources(
        cpu=sum(pod.usage.cpu or 0.0 for pod in pods), memory=sum(pod.usage.memory or 0.0 for pod in pods),
        further=further,
    )  # fmt: skip
    node = a_node(name, pods, base=CAPACITY, usage=dict.fromkeys(WINDOWS, usage), resources=resources)
    node = changed_node(node, allocatable={"pods": 10.0})
    metadata = msgspec.structs.replace(node.object.metadata, uid=f"uid-{name}", creation_timestamp=moment(NOW - 1e6))
    return msgspec.structs.replace(node, object=msgspec.structs.replace(node.object, metadata=metadata))


@st.composite
def clusters(draw: st.DrawFn) -> ClusterView:
    """A node that is full, one that is nearly empty, on which a resize is pending, and some with room. What their pods
    use of the further resources varies."""

    plain = draw(st.booleans())
    """Whether all pods but those of the full node use CPU and memory only."""

    def pod(name: str, cpu: st.SearchStrategy[float], memory: float) -> MovablePod:
        if plain and not name.startswith("full"):
            return a_pod(name, cpu=draw(cpu), memory=memory * 64 * GIB)
        shares = draw(st.fixed_dictionaries({name: st.sampled_from([0.0, 0.0, 0.0, 10.0, 30.0]) for name in FURTHER}))
        usage = Resources(cpu=draw(cpu), memory=memory * 64 * GIB, further=shares)
        return a_pod(name, usage=usage, priority=draw(st.sampled_from([0, 9_500])))

    large, small = st.floats(1.0, 3.0), st.floats(0.0, 0.3)
    full = [pod(f"full-{number}", large, 0.2) for number in range(draw(st.integers(2, 5)))]
    sparse = [pod(f"sparse-{number}", small, 0.01) for number in range(draw(st.sampled_from([1, 1, 2, 0])))]
    nodes = [a_measured_node("full", full), a_measured_node("sparse", sparse)]
    if draw(st.booleans()):
        waiting = resizing_pod("waiting", "9800m", node="full")
        nodes[0] = a_measured_node("full", [*full, waiting])
    for number in range(draw(st.integers(1, 3))):
        pods = [
            pod(f"target-{number}-{place}", st.floats(1.1, 1.5), 0.1)
            for place in range(draw(st.sampled_from([2, 2, 2, 3, 0])))
        ]
        nodes.append(a_measured_node(f"target-{number}", pods, unknown_gpu=draw(st.integers(0, 5)) == 0))
    return a_cluster(*nodes, thresholds=THRESHOLDS, further=FURTHER)


@pytest.mark.parametrize("name", PLANNERS)
def test_no_target_is_above_a_threshold(name: str) -> None:
    planned = 0

    @settings(deadline=None, max_examples=100)
    @given(cluster=clusters())
    def no_target_is_above_a_threshold(cluster: ClusterView) -> None:
        nonlocal planned
        moves = moves_of(name, cluster)
        planned += bool(moves)
        note(f"{[(pod.name, target) for pod, target in moves]}")
        assert [] == list(faults(name, cluster, moves))

    no_target_is_above_a_threshold()
    assert planned
