"""Clusters to score: arrays for policies, and messages for the scoring state."""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from builders import GIB, NOW, a_node_utilization, a_placement, a_workload

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.messages.eviction import EvictionOutcome, Outcome
from equipoise.contracts.messages.placement import PlacedPod
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.utilization import UtilizationCycle
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.numeric import Array
from equipoise.scorer.decisions.arrays import (
    BandRoom,
    CandidateNodes,
    ClusterLoad,
    DailyLoads,
    Demand,
    FurtherLoads,
    LoadRanges,
    Statistic,
)
from equipoise.scorer.decisions.policies import ScoringPolicy
from equipoise.scorer.decisions.policies.water_level import WaterLevel
from equipoise.scorer.decisions.scoring_settings import ScoringSettings
from equipoise.scorer.state.scoring_state import ScoringState

WINDOWS = ("5m", "15m", "1h", "1d")
MOVED = Resources(cpu=1.0, memory=GIB)
"""The usage of the pod in `an_outcome`."""


def node_loads(
    load: Array,
    cluster: Array | None = None,
    *,
    statistics: Mapping[Statistic, Array] | None = None,
    requests: Array | None = None,
    limits: Array | None = None,
    recent_placements: Array | None = None,
    names: Sequence[str] | None = None,
    bands: BandRoom | None = None,
) -> CandidateNodes:
    """Nodes of 100 cores and bytes: a load in percent is an amount. `load` is nodes × windows × resources.

    Statistics default to the mean, but a deviation to 0; requests, limits and recent placements to 0.
    """
    count, whole = len(load), load if cluster is None else cluster
    known: dict[Statistic, Array] = {"p95": load, "max": load, "production": load, "deviation": 0.0 * load}
    known["system"] = 0.0 * load
    return CandidateNodes(
        names=[f"node-{index}" for index in range(count)] if names is None else names,
        windows=WINDOWS,
        load=load,
        base=np.full((count, 2), 100.0),
        cluster=ClusterLoad(whole),
        statistics=known | dict(statistics or {}),
        requests=np.zeros((count, 2)) if requests is None else requests,
        limits=np.zeros((count, 2)) if limits is None else limits,
        recent_placements=np.zeros((count, 2)) if recent_placements is None else recent_placements,
        daily=daily_loads(flat(load), flat(whole)),
        bands=bands,
    )


def further_loads(name: str, load: Array) -> FurtherLoads:
    """The loads (nodes × 1) of one further resource, in a cluster of these nodes. All of them have it."""
    return FurtherLoads(
        names=(name,), load=load, lacking=np.zeros(load.shape, dtype=np.bool_), of_all=LoadRanges.of(load)
    )


def flat(load: Array) -> Array:
    """nodes × resources × slots: the load of the shortest window, all day."""
    return np.repeat(load[:, 0, :, np.newaxis], SLOTS, axis=2)


def daily_loads(share: Array, cluster: Array) -> DailyLoads:
    """The daily loads of nodes (nodes × resources × slots) in a cluster with the daily loads `cluster`."""
    known = ~np.isnan(cluster).any(axis=(1, 2))
    return DailyLoads(
        share=share,
        peak=share.max(axis=2),
        reserved=np.zeros(share.shape[:2]),
        mean=cluster[known].sum(axis=0) / max(1, known.sum()),
        base=np.full(2, 100.0),
    )


def evenly(percent: Sequence[float]) -> Array:
    """Nodes with the same load in every window and resource."""
    return np.repeat(np.array(percent) / 100.0, 8).reshape(len(percent), 4, 2)


def a_demand(percent: float) -> Demand:
    return demand_of(np.full((4, 2), percent))


def demand_of(usage: Array) -> Demand:
    """windows × resources; the pod requests what it uses in the shortest window."""
    return Demand(usage=usage, sources={"cpu": "measured", "memory": "measured"}, requests=usage[0], limits=usage[0])


def a_pod(name: str = "new-1", workload: Workload | None = None, cpu: float = 1.0, memory: float = GIB) -> PodDemand:
    return PodDemand(
        namespace="shop", name=name, uid=f"uid-{name}", workload=workload, requests=Resources(cpu=cpu, memory=memory)
    )


def a_cycle(expected: int, fresh: int | None = None, **fields: object) -> UtilizationCycle:
    defaults = {"shard": "0", "cycle": 1, "expected": expected, "fresh": expected if fresh is None else fresh}
    return UtilizationCycle(**({"queried_at": NOW} | defaults | fields))  # type: ignore[arg-type]


def an_outcome(pod: str = "web-1", **fields: object) -> EvictionOutcome:
    """`pod` was evicted from node-a; its replacement is to go to node-b."""
    defaults = {
        "intent_id": f"intent-{pod}",
        "outcome": Outcome.EVICTED,
        "pod_uid": f"uid-{pod}",
        "namespace": "shop",
        "pod": pod,
        "node": "node-a",
        "workload": a_workload(),
        "target": "node-b",
        "reason": "node is overutilized",
        "expected_reduction": MOVED,
        "decided_at": NOW,
        "settled_at": NOW,
    }
    return EvictionOutcome(**(defaults | fields))  # type: ignore[arg-type]


def a_scoring_state(
    cores: dict[str, float],
    *,
    load: LoadSettings | None = None,
    pods: dict[str, list[PlacedPod]] | None = None,
    policy: ScoringPolicy | None = None,
    **settings: object,
) -> ScoringState:
    """Nodes of 10 cores by name, each using this many of them; memory at 4 of 64 GiB everywhere."""
    scoring = msgspec.structs.replace(ScoringSettings(policy=policy or WaterLevel()), **settings)
    state = ScoringState(load or LoadSettings(), scoring)
    for node, cpu in cores.items():
        state.on_placement(a_placement(node, (pods or {}).get(node)), NOW)
        state.nodes.on_utilization(a_node_utilization(node, cpu), NOW)
    state.on_cycle(a_cycle(len(cores)), NOW)
    return state


def a_batch_demand(cpu: float, memory: float) -> Demand:
    """The demand of a pod that requests this much of the band batch, and uses 1 % of a node."""
    requests = np.array([cpu, memory])
    return msgspec.structs.replace(a_demand(1.0), batch_work=True, band="batch", band_requests=requests)


def a_batch_request(name: str = "job-1", cpu: float = 1.0, memory: float = GIB, **fields: object) -> PodDemand:
    """A pod that requests this many cores and bytes of the band batch."""
    requests = Resources(cpu=cpu, memory=memory)
    pod = PodDemand(namespace="shop", name=name, uid=f"uid-{name}", priority_class="batch", reclaimed_requests=requests)
    return msgspec.structs.replace(pod, **fields)
