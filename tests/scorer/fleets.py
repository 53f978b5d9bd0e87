"""Fleets to score: arrays for policies, and messages for the whole picture."""

from collections.abc import Mapping, Sequence

import numpy as np
from builders import GIB, NOW, a_node_utilization, a_placement

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.messages.placement import PlacedPod
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.utilization import UtilizationCycle
from equipoise.scorer.decisions.policies import ScoringPolicy, name_of
from equipoise.scorer.decisions.policies.water_level import WaterLevel
from equipoise.scorer.decisions.scoring_state import Picture
from equipoise.scorer.state.arrays import Array, Days, Demand, FleetLoads, NodeLoads, Statistic

WINDOWS = ("5m", "15m", "1h", "1d")


def node_loads(
    load: Array,
    fleet: Array | None = None,
    *,
    statistics: Mapping[Statistic, Array] | None = None,
    requested: Array | None = None,
    limited: Array | None = None,
    placed: Array | None = None,
    names: Sequence[str] | None = None,
) -> NodeLoads:
    """Nodes of 100 cores and bytes: a load in percent is an amount. `load` is nodes × windows × resources.

    A statistic that is not given is as the mean, but for a deviation of 0; nothing is requested or lately placed.
    """
    count, whole = len(load), load if fleet is None else fleet
    known: dict[Statistic, Array] = {"p95": load, "max": load, "production": load, "deviation": 0.0 * load}
    known["system"] = 0.0 * load
    return NodeLoads(
        names=[f"node-{index}" for index in range(count)] if names is None else names,
        windows=WINDOWS,
        load=load,
        base=np.full((count, 2), 100.0),
        fleet=FleetLoads(whole),
        statistics=known | dict(statistics or {}),
        requested=np.zeros((count, 2)) if requested is None else requested,
        limited=np.zeros((count, 2)) if limited is None else limited,
        placed=np.zeros((count, 2)) if placed is None else placed,
        days=days_of(flat(load), flat(whole)),
    )


def flat(load: Array) -> Array:
    """resources × nodes × slots: the load of the shortest window, all day."""
    return np.repeat(load[:, 0, :].T[:, :, np.newaxis], SLOTS, axis=2)


def days_of(share: Array, fleet: Array) -> Days:
    """The days of nodes (resources × nodes × slots) in a fleet of such days."""
    known = ~np.isnan(fleet).any(axis=(0, 2))
    return Days(
        share=share,
        peak=share.max(axis=2),
        booked=np.zeros(share.shape[:2]),
        rows=np.arange(share.shape[1]),
        mean=fleet[:, known].sum(axis=1) / max(1, known.sum()),
        base=np.full(2, 100.0),
    )


def evenly(percent: Sequence[float]) -> Array:
    """Nodes with the same load in every window and resource."""
    return np.repeat(np.array(percent) / 100.0, 8).reshape(len(percent), 4, 2)


def a_demand(percent: float) -> Demand:
    return demand_of(np.full((4, 2), percent))


def demand_of(usage: Array) -> Demand:
    """windows × resources; it asks for what it uses in the shortest window."""
    return Demand(usage=usage, sources={"cpu": "measured", "memory": "measured"}, requests=usage[0], limits=usage[0])


def a_pod(name: str = "new-1", workload: Workload | None = None, cpu: float = 1.0, memory: float = GIB) -> PodDemand:
    return PodDemand(
        namespace="shop", name=name, uid=f"uid-{name}", workload=workload, requests=Resources(cpu=cpu, memory=memory)
    )


def a_cycle(expected: int, fresh: int | None = None, **fields: object) -> UtilizationCycle:
    defaults = {"shard": "0", "cycle": 1, "expected": expected, "fresh": expected if fresh is None else fresh}
    return UtilizationCycle(**({"queried_at": NOW} | defaults | fields))  # type: ignore[arg-type]


def a_picture(
    cores: dict[str, float],
    *,
    load: LoadSettings | None = None,
    pods: dict[str, list[PlacedPod]] | None = None,
    policy: ScoringPolicy | None = None,
) -> Picture:
    """Nodes of 10 cores by name, each using so many of them; memory at 4 of 64 GiB everywhere."""
    picture = Picture(
        load=load or LoadSettings(),
        policy=policy or WaterLevel(),
        policy_name=name_of(policy or WaterLevel()),
        least_spread=5.0,
        reservation=2.0,
        after_eviction=600.0,
    )
    for node, cpu in cores.items():
        picture.on_placement(a_placement(node, (pods or {}).get(node)), NOW)
        picture.on_utilization(a_node_utilization(node, cpu), NOW)
    picture.on_cycle(a_cycle(len(cores)))
    return picture
