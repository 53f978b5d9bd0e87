"""Koordinator's LoadAwareScheduling: thresholds, scores, estimates and recently placed pods.

Cases run through messages, load correction, expected usage and policy. A pod whose usage a case reports has long been
running, as the node's usage of the case includes it; another was placed this many seconds ago and does not run yet.
"""

import msgspec
import numpy as np
import pytest
from builders import NOW, a_node_utilization, a_placed_pod, a_placement
from peers.cases import Case, Inputs, peer_cases
from scorer.clusters import a_demand, evenly, node_loads

from equipoise.contracts.configuration.settings import LoadSettings, ResourceThresholds
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.demand import Estimate, expected_usage, pod_usage, requests_and_limits
from equipoise.contracts.load.pod_priority import priority_class_of
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.utilization import NodeUtilization, WindowUsage
from equipoise.contracts.messages.values.resources import Resources
from equipoise.scorer.decisions.arrays import CandidateNodes, Demand
from equipoise.scorer.decisions.demand import expected_demand
from equipoise.scorer.decisions.load_correction import corrected_load
from equipoise.scorer.decisions.policies.load_aware import Aggregated, LoadAware, LoadAwareWeights
from equipoise.scorer.state.node_table import NodeTable

PRIORITIES = {"prod": 9_500, "mid": 7_500, "none": 0}
WINDOW_NAMES = {300: "5m", 900: "15m"}
LONG_AGO = NOW - 90_000
POD = a_demand(0.0)


def amount(given: dict[str, float]) -> Resources:
    return Resources(cpu=given["cpu_m"] / 1_000 if "cpu_m" in given else None, memory=given.get("memory_b"))


def marks(given: dict[str, float]) -> ResourceThresholds:
    return ResourceThresholds(cpu=given.get("cpu"), memory=given.get("memory"))


def asked(given: Inputs) -> dict[str, Resources]:
    """The requests and limits of a pod. Those of a mid pod are amounts of its band, and it has no others."""
    requests, limits = amount(given["requests"]), amount(given["limits"])
    if given["priority_class"] == "mid":
        return {
            "requests": Resources(),
            "limits": Resources(),
            "reclaimed_requests": requests,
            "reclaimed_limits": limits,
        }
    return {"requests": requests, "limits": limits}


def a_pod(given: Inputs) -> PodDemand:
    """The pod to be placed."""
    name, kind = given["name"], "DaemonSet" if given["daemonset"] else "Deployment"
    return PodDemand(
        namespace="shop",
        name=name,
        uid=f"uid-{name}",
        workload=Workload(kind=kind, group="apps", namespace="shop", name=name),
        priority=PRIORITIES[given["priority_class"]],
        priority_class=priority_class_of(
            {}, PRIORITIES[given["priority_class"]], "BestEffort" if given["priority_class"] == "none" else "Burstable"
        ),
        **asked(given),
    )


def a_placed(given: Inputs, reported: bool) -> PlacedPod:
    return a_placed_pod(
        given["name"],
        workload=None,
        placed_at=LONG_AGO if reported else NOW - given["scheduled_age_s"],
        running_since=LONG_AGO if reported else None,
        priority=PRIORITIES[given["priority_class"]],
        priority_class=priority_class_of({}, PRIORITIES[given["priority_class"]], "Burstable"),
        **asked(given),
    )


def a_node(inputs: Inputs) -> tuple[NodeUtilization | None, NodePlacement]:
    """The messages of a case's node; no utilization where it was not measured, or at an unknown time."""
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


def seen(policy: LoadAware, inputs: Inputs) -> tuple[CandidateNodes, Demand]:
    nodes = NodeTable(LoadSettings(), policy.demand_chain, statistics=policy.statistics)
    utilization, placement = a_node(inputs)
    nodes.on_placement(placement, NOW)
    if utilization is not None:
        nodes.on_utilization(utilization, NOW)
    demand = expected_demand(a_pod(inputs["incoming_pod"]), None, windows=nodes.windows, chain=policy.demand_chain)
    return nodes.candidates(["node-a"], nodes.rows(["node-a"]), NOW), demand


@peer_cases("load_aware.filter")
def test_filter(case: Case) -> None:
    """A node that would be above a threshold is refused, and the first such resource is named."""
    args = case.inputs["args"]
    policy = LoadAware(
        usage_thresholds=marks(args["usage_thresholds"]),
        prod_usage_thresholds=marks(args["prod_thresholds"]),
        estimated_scaling_factors=Estimate(**args["scaling_factors"]),
    )

    refused = policy.refuse(*seen(policy, case.inputs)) or {}

    resource = refused.get("node-a", "").split(" ")[0]
    case.check(feasible=not refused, reason=f"node(s) {resource} usage exceed threshold" if refused else None)


@peer_cases("load_aware.score")
def test_score(case: Case) -> None:
    """Koordinator rounds each resource's score and then their mean down."""
    args = case.inputs["args"]
    aggregated = args["score_aggregated"]
    policy = LoadAware(
        resource_weights=LoadAwareWeights(**args["weights"]) if args["weights"] else None,
        dominant_resource_weight=args["dominant_weight"],
        score_according_prod_usage=args["score_by_prod_usage"],
        aggregated=aggregated
        and Aggregated(score_statistic=aggregated["type"], score_window=WINDOW_NAMES[aggregated["duration_s"]]),
        estimated_scaling_factors=Estimate(**args["scaling_factors"]),
    )

    case.check(rounding="down twice", score=policy.score(*seen(policy, case.inputs))[0].item())


@peer_cases("load_aware.estimator")
def test_estimator(case: Case) -> None:
    """A percentage of the limit, or of the request where there is none, in whole millicores and bytes."""
    inputs = case.inputs
    usage, sources = expected_usage(
        requests=amount(inputs["requests"]),
        limits=amount(inputs["limits"]),
        workload=None,
        window="5m",
        chain=LoadAware(estimated_scaling_factors=Estimate(**inputs["scaling_factors"])).demand_chain,
    )

    assert {str(link) for link in sources.values()} == {"estimate"}
    case.check(rounding="nearest", cpu_m=1_000 * (usage.cpu or 0.0), memory_b=usage.memory)


@peer_cases("load_aware.aggregated_lookup")
def test_aggregated_lookup(case: Case) -> None:
    """Without a window the longest counts of which the statistic is known. The node has 100 cores."""
    cores = {entry["duration_s"]: entry["p95_cpu_cores"] for entry in case.inputs["windows"]}
    quantile = np.full((1, 4, 2), np.nan)
    for index, duration in enumerate(sorted(cores)):
        quantile[0, index] = np.nan if cores[duration] is None else cores[duration] / 100.0
    policy = LoadAware(
        aggregated=Aggregated(score_statistic="p95"), resource_weights=LoadAwareWeights(cpu=1.0), window="5m"
    )

    score = policy.score(node_loads(evenly([1.0]), statistics={"p95": quantile}), POD)

    case.check(cpu_cores=100 - score[0].item())


@peer_cases("load_aware.assign_cache")
def test_recently_placed_pods(case: Case) -> None:
    """Koordinator adds estimate - usage to the node's mean, the product what the window lacks of the usage."""
    inputs = case.inputs
    chain = LoadAware(estimated_scaling_factors=Estimate(**inputs["scaling_factors"])).demand_chain
    reported = {f"uid-{pod['pod']}": amount(pod) for pod in inputs["reported"]}
    pods = [
        msgspec.structs.replace(a_placed(pod, reported=False), running_since=NOW - pod["scheduled_age_s"])
        for pod in inputs["assigned_pods"]
    ]
    estimates = [
        expected_usage(requests=requests, limits=limits, workload=None, window="5m", chain=chain)[0]
        for requests, limits in map(requests_and_limits, pods)
    ]

    loads = corrected_load(
        a_node_utilization(cpu=10.0, memory=0.0, pods=reported, base=Resources(cpu=100.0, memory=2.0**40)),
        a_placement(pods=pods),
        pod_usage({}, load=LoadSettings(), chain=chain, now=NOW),
        load=LoadSettings(),
        statistics=("production",),
    )
    added = loads[0, 0] * [100_000, 2**40] - [10_000, 0]
    production = loads[1, 0] * [100_000, 2**40]

    published = [case.expected["prod_usage"], case.expected["prod_delta"]]
    for index, name in enumerate(("cpu_m", "memory_b")):  # the product has no other sum than that of both
        assert production[index] == pytest.approx(sum(amounts[name] for amounts in published))
    case.check(
        sum_of_estimates={
            "cpu_m": sum(1_000 * (usage.cpu or 0) for usage in estimates),
            "memory_b": sum(usage.memory or 0 for usage in estimates),
        },
        node_delta={"cpu_m": added[0].item(), "memory_b": added[1].item()},
    )


@peer_cases("load_aware.estimate_deadline")
def test_a_placed_pod_is_added_until_the_window_includes_it(case: Case) -> None:
    """The first second after the placement at which nothing is added any more; null: it is added until it runs."""
    inputs = case.inputs
    assigned = inputs["assigned_at_offset_s"]
    running_since = None if inputs["initialized_condition"] is False else inputs["initialized_at_offset_s"] or assigned
    pod = a_placed_pod(
        workload=None,
        placed_at=NOW + assigned,
        running_since=None if running_since is None else NOW + running_since,
        requests=Resources(cpu=2.0, memory=0.0),
    )

    def added(offset: float) -> float:
        utilization = a_node_utilization(cpu=0.0, base=Resources(cpu=1.0, memory=1.0), sampled_at=NOW + offset)
        chain = LoadAware(estimated_scaling_factors=Estimate(cpu=50.0)).demand_chain
        usage_of = pod_usage({}, load=LoadSettings(), chain=chain, now=NOW)
        return float(corrected_load(utilization, a_placement(pods=[pod]), usage_of, load=LoadSettings())[0, 0, 0])

    case.check(deadline_offset_s=next((offset for offset in range(assigned, 1_800) if added(offset) == 0.0), None))
