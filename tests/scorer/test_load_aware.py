"""Koordinator's LoadAwareScheduling: thresholds, views of a node, estimates; and where compensation stands in for it.

Cases run through the whole picture: messages, compensation, the chain of expected usage, the policy. A pod whose usage
a case reports has been running for long, as the node's usage of the case holds it; one that is not reported was placed
so many seconds ago and does not run yet.
"""

import copy
import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from builders import NOW, a_node_utilization, a_placed_pod, a_placement, a_workload_utilization
from scorer.fleets import a_demand, evenly, node_loads

from equipoise.contracts.configuration.settings import LoadSettings, ResourceThresholds
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.demand import Estimate, expected_usage
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.utilization import NodeUtilization, WindowUsage
from equipoise.scorer.decisions.policies.load_aware import Aggregated, LoadAware, Weights
from equipoise.scorer.state.arrays import Demand, NodeLoads
from equipoise.scorer.state.demand import expected_demand
from equipoise.scorer.state.load_correction import compensated_load
from equipoise.scorer.state.node_table import Fleet

CASES = json.loads((Path(__file__).parents[1] / "data" / "load_aware_cases.json").read_text())["cases"]
PRIORITIES = {"prod": 9_500, "mid": 7_500, "none": 0}
WINDOW_NAMES = {300: "5m", 900: "15m"}
LONG_AGO = NOW - 90_000
POD = a_demand(0.0)


def cases(feature: str) -> pytest.MarkDecorator:
    found = [case for case in CASES if case["feature"] == f"load_aware.{feature}"]
    return pytest.mark.parametrize("case", found, ids=[case["id"] for case in found])


def amount(given: dict[str, float]) -> Resources:
    return Resources(cpu=given["cpu_m"] / 1_000 if "cpu_m" in given else None, memory=given.get("memory_b"))


def marks(given: dict[str, float]) -> ResourceThresholds:
    return ResourceThresholds(cpu=given.get("cpu"), memory=given.get("memory"))


def a_pod(given: dict[str, Any]) -> PodDemand:
    """The pod of the question."""
    name, kind = given["name"], "DaemonSet" if given["daemonset"] else "Deployment"
    return PodDemand(
        namespace="shop",
        name=name,
        uid=f"uid-{name}",
        workload=Workload(kind=kind, group="apps", namespace="shop", name=name),
        qos="BestEffort" if given["priority_class"] == "none" else "Burstable",
        priority=PRIORITIES[given["priority_class"]],
        requests=amount(given["requests"]),
        limits=amount(given["limits"]),
    )


def a_placed(given: dict[str, Any], reported: bool) -> PlacedPod:
    return a_placed_pod(
        given["name"],
        workload=None,
        placed_at=LONG_AGO if reported else NOW - given["scheduled_age_s"],
        running_since=LONG_AGO if reported else None,
        priority=PRIORITIES[given["priority_class"]],
        qos="Burstable",
        requests=amount(given["requests"]),
        limits=amount(given["limits"]),
    )


def a_node(inputs: dict[str, Any]) -> tuple[NodeUtilization | None, NodePlacement]:
    """The messages of a case's node; no utilization where nobody measured it, or cannot say when."""
    metric = inputs["node_metric"]
    reported = {pod["pod"]: amount(pod) for pod in metric["pods"]} if metric else {}
    placement = a_placement(pods=[a_placed(pod, pod["name"] in reported) for pod in inputs["assigned_pods"]])
    if metric is None or metric["age_s"] is None:
        return None, placement
    sampled_at = NOW - metric["age_s"]
    windows = {"5m": WindowUsage(sampled_at=sampled_at, mean=amount(metric["node_usage"]))}
    for entry in metric["aggregated"]:
        name = WINDOW_NAMES[entry["duration_s"]]
        windows[name] = msgspec.structs.replace(windows[name], p95=amount(entry["p95"]))
    return a_node_utilization(
        base=amount(inputs["allocatable"]),
        sampled_at=sampled_at,
        windows=windows,
        pods={f"uid-{name}": usage for name, usage in reported.items()},
    ), placement


def seen(policy: LoadAware, inputs: dict[str, Any]) -> tuple[NodeLoads, Demand]:
    fleet = Fleet(LoadSettings(), policy.demand_chain, statistics=policy.statistics)
    utilization, placement = a_node(inputs)
    fleet.placement(placement, NOW)
    if utilization is not None:
        fleet.utilization(utilization, NOW)
    demand = expected_demand(a_pod(inputs["incoming_pod"]), None, windows=fleet.windows, chain=policy.demand_chain)
    return fleet.loads(["node-a"], fleet.rows(["node-a"]), NOW), demand


@cases("filter")
def test_filter_case(case: dict[str, Any]) -> None:
    """A node that would be above a threshold is refused, and the first such resource is named.

    Two differ on purpose. laf-06: Koordinator reads thresholds from an annotation of the node too; ours stand in the
    configuration only, since any kubelet may write its node's annotations. laf-22: Koordinator refuses a node whose
    metric has expired, so a failing source keeps every pod from running; here not knowing refuses nobody.
    """
    args, override = case["inputs"]["args"], case["inputs"]["node_override"]
    policy = LoadAware(
        usage_thresholds=marks(override["usage_thresholds"] or args["usage_thresholds"]),
        prod_usage_thresholds=marks(override["prod_thresholds"] or args["prod_thresholds"]),
        estimated_scaling_factors=Estimate(**args["scaling_factors"]),
    )

    refused = policy.refuse(*seen(policy, case["inputs"]))

    assert bool(refused) == (not case["expected"]["feasible"] and case["id"] != "laf-22")
    if refused:
        assert f"node(s) {refused['node-a'].split()[0]} usage exceed threshold" == case["expected"]["reason"]


@cases("score")
def test_score_case(case: dict[str, Any]) -> None:
    """Koordinator cuts off each resource's score and then their mean: each of ours is its integer, cut off as well.

    las-01 differs at one instant, on purpose: after exactly 180 s a value still lives here, and not any longer.
    """
    inputs, args = copy.deepcopy(case["inputs"]), case["inputs"]["args"]
    aggregated = args["score_aggregated"]
    if case["id"] == "las-01":
        inputs["node_metric"]["age_s"] += 0.001
    policy = LoadAware(
        resource_weights=Weights(**args["weights"]) if args["weights"] else None,
        dominant_resource_weight=args["dominant_weight"],
        score_according_prod_usage=args["score_by_prod_usage"],
        aggregated=aggregated
        and Aggregated(score_statistic=aggregated["type"], score_window=WINDOW_NAMES[aggregated["duration_s"]]),
        estimated_scaling_factors=Estimate(**args["scaling_factors"]),
    )
    nodes, demand = seen(policy, inputs)

    score = policy.score(nodes, demand)[0]

    def cut_off(resource: str) -> int:
        alone = msgspec.structs.replace(
            policy, resource_weights=Weights(**{resource: 1.0}), dominant_resource_weight=0.0
        )
        return int(alone.score(nodes, demand)[0])

    cpu, memory = cut_off("cpu"), cut_off("memory")
    weights, dominant = args["weights"], args["dominant_weight"]
    total = cpu * weights.get("cpu", 0) + memory * weights.get("memory", 0) + min(cpu, memory) * dominant
    assert total // (sum(weights.values()) + dominant) == case["expected"]["score"]
    assert case["expected"]["score"] <= score < case["expected"]["score"] + 2


@cases("estimator")
def test_estimator_case(case: dict[str, Any]) -> None:
    """A percentage of the limit, or of the request where there is none; whole millicores and bytes there, here not.

    lae-08 differs on purpose: Koordinator takes a pod's own factors from an annotation, here factors are configuration
    only (what the bus knows of a pod has no annotations); with them as settings the amounts are the same.
    """
    inputs = case["inputs"]
    factors = Estimate(**inputs["scaling_factors"] | inputs["pod_factor_annotation"])

    usage, sources = expected_usage(
        requests=amount(inputs["requests"]),
        limits=amount(inputs["limits"]),
        workload=None,
        window="5m",
        chain=LoadAware(estimated_scaling_factors=factors).demand_chain,
    )

    assert usage.cpu is not None
    assert usage.memory is not None
    assert round(1_000 * usage.cpu) == case["expected"]["cpu_m"]
    assert round(usage.memory) == case["expected"]["memory_b"]
    assert {str(link) for link in sources.values()} == {"estimate"}


@cases("aggregated_lookup")
def test_aggregated_lookup_case(case: dict[str, Any]) -> None:
    """Without a window the longest counts of which the statistic is known."""
    cores = {entry["duration_s"]: entry["p95_cpu_cores"] for entry in case["inputs"]["windows"]}
    quantile = np.full((1, 4, 2), np.nan)
    for index, usage in enumerate(cores[duration] for duration in sorted(cores)):
        quantile[0, index] = np.nan if usage is None else usage / 100.0
    policy = LoadAware(aggregated=Aggregated(score_statistic="p95"), resource_weights=Weights(cpu=1.0), window="5m")

    score = policy.score(node_loads(evenly([1.0]), statistics={"p95": quantile}), POD)

    assert score == pytest.approx([100.0 - case["expected"]["cpu_cores"]])


@cases("assign_cache")
def test_recently_placed_pods_case(case: dict[str, Any]) -> None:
    """Sums over a node's pods. Koordinator adds estimate − usage to the node's mean; we what the window lacks of usage.

    Its prod sum, raised by that difference, is the plain sum of measured usage here, and classes are those of the
    placement, so that the pod reported as mid counts with its usage and not with 0 and an estimate. (In this case both
    come to the same.) Pods that are reported but not placed are not counted by either.
    """
    inputs, expected = case["inputs"], case["expected"]
    chain = LoadAware(estimated_scaling_factors=Estimate(**inputs["scaling_factors"])).demand_chain
    reported = {f"uid-{pod['pod']}": amount(pod) for pod in inputs["reported"]}
    pods = [
        msgspec.structs.replace(a_placed(pod, reported=False), running_since=NOW - pod["scheduled_age_s"])
        for pod in inputs["assigned_pods"]
    ]
    estimates = [
        expected_usage(requests=pod.requests, limits=pod.limits, workload=None, window="5m", chain=chain)[0]
        for pod in pods
    ]

    loads = compensated_load(
        a_node_utilization(cpu=10.0, memory=0.0, pods=reported, base=Resources(cpu=100.0, memory=2.0**40)),
        a_placement(pods=pods),
        {},
        load=LoadSettings(),
        chain=chain,
        now=NOW,
        statistics=("production",),
    )
    added, production = loads[0, 0] * [100_000, 2**40] - [10_000, 0], loads[1, 0] * [100_000, 2**40]

    assert [sum(1_000 * (usage.cpu or 0) for usage in estimates), sum(usage.memory or 0 for usage in estimates)] == [
        expected["sum_of_estimates"]["cpu_m"],
        expected["sum_of_estimates"]["memory_b"],
    ]
    placed = [reported[pod.uid] for pod in pods]
    lacking = 1 - 10 / 300
    assert added[0] == pytest.approx(lacking * sum(1_000 * (usage.cpu or 0) for usage in placed))
    assert added[1] == pytest.approx(lacking * sum(usage.memory or 0 for usage in placed))
    for index, resource in enumerate(("cpu_m", "memory_b")):
        assert added[index] > expected["node_delta"][resource]
        assert production[index] == pytest.approx(expected["prod_usage"][resource] + expected["prod_delta"][resource])


@cases("estimate_deadline")
def test_a_placed_pod_is_added_until_the_window_holds_it_case(case: dict[str, Any]) -> None:
    """Differs on purpose: Koordinator adds a new pod's estimate in full up to a deadline, then nothing.

    At its deadline the five-minute mean still lacks a part of the pod, which is added here, without a setting, until
    the window holds all of it; a pod that does not run yet is added in full.
    """
    inputs, deadline = case["inputs"], case["expected"]["deadline_offset_s"]
    started = inputs["initialized_condition"] is not False
    pod = a_placed_pod(
        workload=None,
        placed_at=NOW + inputs["assigned_at_offset_s"],
        running_since=NOW + (inputs["initialized_at_offset_s"] or inputs["assigned_at_offset_s"]) if started else None,
        requests=Resources(cpu=2.0, memory=0.0),
    )

    def added(offset: float) -> float:
        utilization = a_node_utilization(cpu=0.0, base=Resources(cpu=1.0, memory=1.0), sampled_at=NOW + offset)
        chain = LoadAware(estimated_scaling_factors=Estimate(cpu=50.0)).demand_chain
        placement = a_placement(pods=[pod])
        return float(compensated_load(utilization, placement, {}, load=LoadSettings(), chain=chain, now=NOW)[0, 0, 0])

    if deadline is None:
        assert added(0.0) == 1.0
    else:
        assert added(deadline) == pytest.approx(1 - 180 / 300)
        assert added(inputs["assigned_at_offset_s"] + 300) == 0.0


def test_measured_siblings_come_before_the_estimate() -> None:
    """Differs on purpose: Koordinator never looks at what other replicas use; its factors are the same for all pods."""
    usage, sources = expected_usage(
        requests=Resources(cpu=4.0, memory=8.0),
        limits=Resources(),
        workload=a_workload_utilization(cpu=1.5, memory=None),
        window="5m",
        chain=LoadAware().demand_chain,
    )

    assert (usage.cpu, usage.memory) == (1.5, 5.6)
    assert {resource: str(link) for resource, link in sources.items()} == {"cpu": "measured", "memory": "estimate"}


@pytest.mark.parametrize(("percent", "refused"), [(65.4, False), (65.5, True), (66.0, True)])
def test_percent_are_rounded_before_they_are_compared(percent: float, refused: bool) -> None:
    """Half a percent above the threshold still passes, as in Koordinator."""
    policy = LoadAware(usage_thresholds=ResourceThresholds(cpu=65))

    assert bool(policy.refuse(node_loads(evenly([percent])), POD)) == refused


def test_without_thresholds_of_its_own_the_shared_ones_count() -> None:
    """One place for thresholds: what the filter lets in is what the descheduler leaves alone."""
    assert LoadAware().refuse(node_loads(evenly([99.0])), POD) is None
    with pytest.raises(ValueError, match="must not name pods"):
        LoadAware(usage_thresholds=ResourceThresholds(pods=50))


@pytest.mark.parametrize("thresholds", [ResourceThresholds(cpu=0, memory=0), ResourceThresholds()])
def test_thresholds_of_nothing_refuse_nobody(thresholds: ResourceThresholds) -> None:
    """0 is off (as Koordinator ships it), and so is one that is left out."""
    assert LoadAware(usage_thresholds=thresholds).refuse(node_loads(evenly([99.0])), POD) == {}


def test_a_production_pod_is_filtered_by_what_production_uses() -> None:
    """Then no other threshold counts; other pods are filtered by all of the node's usage."""
    policy = LoadAware(
        usage_thresholds=ResourceThresholds(cpu=65),
        prod_usage_thresholds=ResourceThresholds(cpu=40),
        prod_usage_include_system=True,
    )
    nodes = node_loads(
        evenly([70, 70, 30]), statistics={"production": evenly([35, 45, 35]), "system": evenly([4, 0, 10])}
    )
    other = msgspec.structs.replace(POD, production=False)

    assert policy.statistics == ("production", "system")
    assert policy.refuse(nodes, POD) == {
        "node-1": "cpu production load would be 45%, above 40%",
        "node-2": "cpu production load would be 45%, above 40%",
    }
    assert policy.refuse(nodes, other).keys() == {"node-0", "node-1"}
    assert policy.score(nodes, POD) == pytest.approx([30.0, 30.0, 70.0])


def test_a_production_pod_is_scored_by_what_production_uses() -> None:
    """Only if the settings say so, and only production pods."""
    policy = LoadAware(score_according_prod_usage=True)
    nodes = node_loads(evenly([70.0]), statistics={"production": evenly([20.0])})

    assert policy.statistics == ("production",)
    assert policy.score(nodes, POD) == pytest.approx([80.0])
    assert policy.score(nodes, msgspec.structs.replace(POD, production=False)) == pytest.approx([30.0])


def test_another_statistic_for_the_filter() -> None:
    """Aggregated thresholds take the place of the others, and need not be those of the score."""
    policy = LoadAware(aggregated=Aggregated(usage_thresholds=ResourceThresholds(cpu=50), statistic="max", window="1h"))
    nodes = node_loads(evenly([70, 30]), statistics={"max": evenly([40, 60])})

    assert policy.windows == ("5m", "1h")
    assert policy.refuse(nodes, POD) == {"node-1": "cpu max load would be 60%, above 50%"}
    assert policy.score(nodes, POD) == pytest.approx([30.0, 70.0])


def test_the_mean_of_another_window() -> None:
    """`mean` needs no statistic of the collector."""
    load = evenly([20.0])
    load[0, 2] = 0.5
    policy = LoadAware(aggregated=Aggregated(score_statistic="mean", score_window="1h"))

    assert policy.score(node_loads(load), POD) == pytest.approx([50.0])


def test_a_node_without_the_statistic_yet_does_not_look_empty() -> None:
    """Its pods' estimates count, or its mean where that is more; Koordinator takes the estimates alone."""
    policy = LoadAware(aggregated=Aggregated(score_statistic="p95", score_window="1h"))
    quantile = np.full((3, 4, 2), np.nan)
    nodes = node_loads(
        np.concatenate([evenly([10, 60]), np.full((1, 4, 2), np.nan)]),
        statistics={"p95": quantile},
        limited=np.array([[40.0, 20.0], [0.0, 0.0], [10.0, 10.0]]),
    )

    assert policy.score(nodes, POD) == pytest.approx([(66.0 + 86.0) / 2, 40.0, 0.0])


def test_pods_of_daemonsets_are_never_refused() -> None:
    """They have no other node to go to."""
    assert LoadAware().refuse(node_loads(evenly([99.0])), msgspec.structs.replace(POD, daemon=True)) == {}


def test_the_reason_says_what_would_be_and_what_may_be() -> None:
    """With the pod, and the first resource that is above."""
    policy = LoadAware(usage_thresholds=ResourceThresholds(cpu=65, memory=95))
    assert policy.refuse(node_loads(evenly([60.0])), a_demand(40.0)) == {"node-0": "cpu load would be 100%, above 65%"}


def test_an_unknown_resource_has_nothing_left() -> None:
    """Differs on purpose: Koordinator reads a resource that was not reported as unused. In the filter it passes."""
    load = evenly([20.0])
    load[0, :, 1] = np.nan

    assert LoadAware().score(node_loads(load), POD) == pytest.approx([40.0])
    assert not LoadAware(usage_thresholds=ResourceThresholds(cpu=65, memory=95)).refuse(node_loads(load), POD)


def test_a_window_that_nobody_configured_is_unknown() -> None:
    """Such a policy tells nobody apart, and refuses nobody."""
    policy = LoadAware(window="7d")

    assert policy.score(node_loads(evenly([20.0])), POD).tolist() == [0.0]
    assert not policy.refuse(node_loads(evenly([99.0])), POD)


@pytest.mark.parametrize(
    ("settings", "points"),
    [
        ({}, 65.0),
        ({"resource_weights": Weights(cpu=3.0, memory=1.0)}, 57.5),
        ({"resource_weights": Weights(cpu=1.0)}, 50.0),
        ({"dominant_resource_weight": 10.0}, 50.0),
        ({"resource_weights": Weights(memory=1.0), "dominant_resource_weight": 1.0}, 65.0),
    ],
)
def test_weights(settings: dict[str, Any], points: float) -> None:
    """1 and 1 unless there is a dominant weight; a resource that is left out does not count, but may be dominant."""
    load = evenly([50.0])
    load[0, :, 1] = 0.2

    assert LoadAware(**settings).score(node_loads(load), POD) == pytest.approx([points])


def test_weights_of_nothing_are_refused() -> None:
    """Without a weight there is no order."""
    with pytest.raises(msgspec.ValidationError, match="needs a weight above 0"):
        msgspec.convert({"resourceWeights": {"cpu": 0}}, LoadAware)
