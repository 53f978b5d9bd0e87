"""Fleets to score: arrays for policies, and messages for the whole picture."""

from collections.abc import Sequence

import numpy as np
from builders import GIB, NOW, a_node_utilization, a_placement

from equipoise.contracts.messages import PlacedPod, PodDemand, Resources, UtilizationCycle
from equipoise.contracts.settings import LoadSettings
from equipoise.contracts.workload import Workload
from equipoise.scorer.loads import Array, Demand, NodeLoads
from equipoise.scorer.picture import Picture
from equipoise.scorer.policies.water_level import WaterLevel

WINDOWS = ("5m", "15m", "1h", "1d")


def node_loads(load: Array, fleet: Array | None = None) -> NodeLoads:
    """Nodes of 100 cores and bytes: a load in percent is an amount. `load` is nodes × windows × resources."""
    return NodeLoads(
        windows=WINDOWS, load=load, base=np.full((len(load), 2), 100.0), fleet=load if fleet is None else fleet
    )


def evenly(percent: Sequence[float]) -> Array:
    """Nodes with the same load in every window and resource."""
    return np.repeat(np.array(percent) / 100.0, 8).reshape(len(percent), 4, 2)


def a_demand(percent: float) -> Demand:
    return Demand(usage=np.full((4, 2), percent), sources={"cpu": "measured", "memory": "measured"})


def a_pod(name: str = "new-1", workload: Workload | None = None, cpu: float = 1.0, memory: float = GIB) -> PodDemand:
    return PodDemand(
        namespace="shop", name=name, uid=f"uid-{name}", workload=workload, requests=Resources(cpu=cpu, memory=memory)
    )


def a_cycle(expected: int, fresh: int | None = None, **fields: object) -> UtilizationCycle:
    defaults = {"shard": "0", "cycle": 1, "expected": expected, "fresh": expected if fresh is None else fresh}
    return UtilizationCycle(**({"queried_at": NOW} | defaults | fields))  # type: ignore[arg-type]


def a_picture(
    cores: dict[str, float], *, load: LoadSettings | None = None, pods: dict[str, list[PlacedPod]] | None = None
) -> Picture:
    """Nodes of 10 cores by name, each using so many of them; memory at 4 of 64 GiB everywhere."""
    picture = Picture(
        load=load or LoadSettings(),
        policy=WaterLevel(),
        policy_name="water_level",
        least_spread=5.0,
        reservation=2.0,
        after_eviction=600.0,
    )
    for node, cpu in cores.items():
        picture.on_placement(a_placement(node, (pods or {}).get(node)), NOW)
        picture.on_utilization(a_node_utilization(node, cpu), NOW)
    picture.on_cycle(a_cycle(len(cores)))
    return picture
