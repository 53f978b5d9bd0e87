"""Nodes and pods of Trimaran's cases as the scorer sees them."""

from collections.abc import Sequence

import numpy as np
from builders import NOW, a_node_utilization, a_placement
from peers.cases import Inputs

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta, ResourceRequirements
from equipoise.contracts.kubernetes.objects.pod import Container, Pod, PodSpec
from equipoise.contracts.load.demand import MEASURED_FIRST, EstimateSource, pod_usage
from equipoise.contracts.messages.placement import PlacedPod
from equipoise.contracts.messages.utilization import WindowUsage
from equipoise.contracts.messages.values.resources import Resources
from equipoise.scorer.decisions.arrays import CandidateNodes, ClusterLoad, Demand, resources
from equipoise.scorer.decisions.demand import expected_demand, pod_demand
from equipoise.scorer.decisions.load_correction import base_of, corrected_load, sums_of_requests_and_limits

LOAD = LoadSettings()
WINDOWS = tuple(window.name for window in LOAD.windows)
NOTHING = Resources(cpu=0.0, memory=0.0)


def a_node(
    *,
    base: Resources,
    mean: Resources,
    deviation: Resources = NOTHING,
    pods: Sequence[PlacedPod] = (),
    sampled_at: float = NOW,
    chain: tuple[EstimateSource, ...] = MEASURED_FIRST,
) -> CandidateNodes:
    """One node, as the scorer would see it; every window shows the same."""
    value = WindowUsage(sampled_at=sampled_at, mean=mean, deviation=deviation)
    utilization = a_node_utilization(base=base, windows=dict.fromkeys(WINDOWS, value), sampled_at=sampled_at)
    placement = a_placement(pods=list(pods))
    usage_of = pod_usage({}, load=LOAD, chain=chain, now=sampled_at)
    load = corrected_load(utilization, placement, usage_of, load=LOAD, statistics=("deviation",))
    requests, limits = sums_of_requests_and_limits(placement)
    return CandidateNodes(
        names=["node-a"],
        windows=WINDOWS,
        load=load[:1],
        base=base_of(utilization)[np.newaxis],
        cluster=ClusterLoad(load[:1]),
        statistics={"deviation": load[1:]},
        requests=requests[np.newaxis],
        limits=limits[np.newaxis],
        recent_placements=np.zeros((1, 0)),
    )


def measured(metrics: Sequence[Inputs] | None, base: Resources, *, operators: Sequence[str]) -> Resources:
    """Amounts of each type, by the first of these operators that there is: the collector has one value of each kind."""
    found: dict[str, float] = {}
    for operator in reversed(operators):
        for metric in metrics or ():
            if metric["op"] == operator:
                resource = metric["type"].lower()
                found[resource] = metric["value"] / 100.0 * getattr(base, resource)
    return Resources(**found)


def a_spec(requests: Inputs, limits: Inputs | None = None) -> Pod:
    """A Pod with the case's containers; amounts that are 0 are left out, as in a manifest."""
    return Pod(
        metadata=ObjectMeta(name="new", namespace="shop", uid="uid-new"),
        spec=PodSpec(
            containers=_containers(requests, limits, "containers"),
            init_containers=_containers(requests, limits, "init_containers"),
            overhead=quantities(requests.get("overhead", {})),
        ),
    )


def _containers(requests: Inputs, limits: Inputs | None, kind: str) -> list[Container]:
    requested = requests.get(kind, [])
    allowed = limits.get(kind, []) if limits else [{} for _ in requested]
    return [
        Container(resources=ResourceRequirements(requests=quantities(least), limits=quantities(most)))
        for least, most in zip(requested, allowed, strict=True)
    ]


def quantities(amounts: Inputs) -> dict[str, str]:
    units = {"cpu_m": ("cpu", "m"), "mem_b": ("memory", "")}
    return {units[name][0]: f"{amount}{units[name][1]}" for name, amount in amounts.items() if amount}


def demand_for(pod: Pod, chain: tuple[EstimateSource, ...] = MEASURED_FIRST) -> Demand:
    return expected_demand(pod_demand(pod), None, windows=WINDOWS, chain=chain)


def usage_of(cpu: float, memory: float = 0.0) -> Demand:
    """A pod that is expected to use, and requests, this many cores and bytes."""
    amounts = np.array([cpu, memory])
    return Demand(usage=np.tile(amounts, (len(WINDOWS), 1)), sources={}, requests=amounts, limits=amounts)


def placed(pod: Pod, name: str, at: float) -> PlacedPod:
    """The pod, running on a node since it was bound."""
    demand = pod_demand(pod)
    return PlacedPod(
        uid=name,
        namespace="shop",
        name=name,
        placed_at=at,
        running_since=at,
        requests=demand.requests,
        limits=demand.limits,
    )


def cores(amounts: Inputs) -> Resources:
    return resources(np.array([amounts.get("cpu_m", 0) / 1000.0, amounts.get("mem_b", 0)]))
