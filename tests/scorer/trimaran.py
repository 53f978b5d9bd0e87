"""The numeric cases of Trimaran, and their nodes and pods as this scorer would see them."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import NOW, a_node_utilization, a_placement

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes import objects
from equipoise.contracts.load.demand import MEASURED_FIRST, EstimateSource
from equipoise.contracts.messages.placement import PlacedPod
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.utilization import WindowUsage
from equipoise.scorer.state.arrays import Demand, NodeLoads, resources
from equipoise.scorer.state.demand import expected_demand, pod_demand
from equipoise.scorer.state.load_correction import base_of, compensated_load, requested_and_limited

CASES = json.loads((Path(__file__).parents[1] / "data" / "trimaran_cases.json").read_text())["cases"]
LOAD = LoadSettings()
WINDOWS = tuple(window.name for window in LOAD.windows)
NOTHING = Resources(cpu=0.0, memory=0.0)
Case = dict[str, Any]


def cases(feature: str, *, but: Sequence[str] = ()) -> pytest.MarkDecorator:
    """Every case of a feature, by its id."""
    found = [case for case in CASES if case["feature"] == feature and case["id"] not in but]
    return pytest.mark.parametrize("case", found, ids=[case["id"] for case in found])


def case_of(name: str) -> Case:
    return next(case for case in CASES if case["id"] == name)


def rounded(score: float) -> int:
    """Half away from zero, as Go rounds."""
    return math.floor(score + 0.5)


def a_node(
    *,
    base: Resources,
    mean: Resources,
    deviation: Resources = NOTHING,
    pods: Sequence[PlacedPod] = (),
    sampled_at: float = NOW,
    chain: tuple[EstimateSource, ...] = MEASURED_FIRST,
) -> NodeLoads:
    """One node, as the scorer would see it; every window shows the same."""
    value = WindowUsage(sampled_at=sampled_at, mean=mean, deviation=deviation)
    utilization = a_node_utilization(base=base, windows=dict.fromkeys(WINDOWS, value), sampled_at=sampled_at)
    placement = a_placement(pods=list(pods))
    load = compensated_load(
        utilization, placement, {}, load=LOAD, chain=chain, now=sampled_at, statistics=("deviation",)
    )
    requested, limited = requested_and_limited(placement)
    return NodeLoads(
        names=["node-a"],
        windows=WINDOWS,
        load=load[:1],
        base=base_of(utilization)[np.newaxis],
        fleet=load[:1],
        statistics={"deviation": load[1:]},
        requested=requested[np.newaxis],
        limited=limited[np.newaxis],
        placed=np.zeros((1, 0)),
    )


def measured(metrics: Sequence[Case] | None, base: Resources, *, operators: Sequence[str]) -> Resources:
    """Amounts of the last metric of each type with one of these operators; the collector asks for one of each."""
    found = {
        metric["type"].lower(): metric["value"] / 100.0 * getattr(base, metric["type"].lower())
        for metric in metrics or ()
        if metric["op"] in operators
    }
    return Resources(**found)


def a_spec(requests: Case, limits: Case | None = None) -> objects.Pod:
    """A Pod with the case's containers; amounts that are 0 are left out, as in a manifest."""
    return objects.Pod(
        metadata=objects.ObjectMeta(name="new", namespace="shop", uid="uid-new"),
        spec=objects.PodSpec(
            containers=_containers(requests, limits, "containers"),
            init_containers=_containers(requests, limits, "init_containers"),
            overhead=quantities(requests.get("overhead", {})),
        ),
    )


def _containers(requests: Case, limits: Case | None, kind: str) -> list[objects.Container]:
    asked = requests.get(kind, [])
    allowed = limits.get(kind, []) if limits else [{} for _ in asked]
    return [
        objects.Container(resources=objects.ResourceRequirements(requests=quantities(least), limits=quantities(most)))
        for least, most in zip(asked, allowed, strict=True)
    ]


def quantities(amounts: Case) -> dict[str, str]:
    units = {"cpu_m": ("cpu", "m"), "mem_b": ("memory", "")}
    return {units[name][0]: f"{amount}{units[name][1]}" for name, amount in amounts.items() if amount}


def demand_for(pod: objects.Pod, chain: tuple[EstimateSource, ...] = MEASURED_FIRST) -> Demand:
    return expected_demand(pod_demand(pod), None, windows=WINDOWS, chain=chain)


def usage_of(cpu: float, memory: float = 0.0) -> Demand:
    """A pod that is expected to use, and asks for, so many cores and bytes."""
    amounts = np.array([cpu, memory])
    return Demand(usage=np.tile(amounts, (len(WINDOWS), 1)), sources={}, requests=amounts, limits=amounts)


def placed(pod: objects.Pod, name: str, at: float) -> PlacedPod:
    """The pod, running on a node from the moment that it was bound."""
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


def cores(amounts: Case) -> Resources:
    return resources(np.array([amounts.get("cpu_m", 0) / 1000.0, amounts.get("mem_b", 0)]))
