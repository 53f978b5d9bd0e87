"""The plugins of Trimaran: TargetLoadPacking, LoadVariationRiskBalancing, LowRiskOverCommitment and Peaks.

Trimaran rounds scores to the nearest integer; the product rounds only what it sends to kube-scheduler.
"""

import math
from typing import Any

import msgspec
import numpy as np
import pytest
from builders import NOW, a_placement
from peers.cases import Case, Inputs, peer_cases
from peers.trimaran import WINDOWS, a_node, a_spec, cores, demand_for, measured, placed, usage_of
from scorer.clusters import a_demand, evenly, node_loads

from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.requests import pod_limit, pod_requests
from equipoise.contracts.load.demand import TARGET_LOAD_PACKING
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.numeric import Array
from equipoise.scorer.decisions.arrays import CandidateNodes, Demand
from equipoise.scorer.decisions.load_correction import sums_of_requests_and_limits
from equipoise.scorer.decisions.policies.beta import beta_cdf, greatest_variance, matched
from equipoise.scorer.decisions.policies.low_risk_overcommit import (
    LowRiskOvercommit,
    RiskLimitWeights,
    limit_risk,
    load_risk,
    with_pod,
)
from equipoise.scorer.decisions.policies.peaks import Peaks, PowerModel, extra_power
from equipoise.scorer.decisions.policies.risk_balancing import RiskBalancing
from equipoise.scorer.decisions.policies.target_load_packing import TargetLoadPacking
from equipoise.scorer.state.recent_placements import RecentPlacements

# TargetLoadPacking


def a_pod(inputs: Inputs) -> Pod:
    containers = inputs["containers"]
    return a_spec(
        {
            "containers": [{"cpu_m": container.get("request_m", 0)} for container in containers],
            "overhead": {"cpu_m": inputs.get("overhead_m", 0)},
        },
        {"containers": [{"cpu_m": container.get("limit_m", 0)} for container in containers]},
    )


def packing_score(inputs: Inputs, node: Inputs) -> float:
    """A pod without containers uses nothing."""
    policy = TargetLoadPacking(target_utilization=inputs["args"]["target_pct"])
    base = Resources(cpu=node["cpu_capacity_m"] / 1000.0, memory=2.0**30)
    recent = node.get("recent") or inputs.get("recent") or []
    nodes = a_node(
        base=base,
        mean=measured(node["metrics"], base, operators=("AVG", "Latest")),
        pods=[placed(a_pod(pod), f"recent-{index}", pod["bound_s"]) for index, pod in enumerate(recent)],
        sampled_at=inputs.get("window_end_s", NOW),
        chain=TARGET_LOAD_PACKING,
    )
    demand = demand_for(a_pod(inputs["pod"]), policy.demand_chain) if inputs["pod"]["containers"] else usage_of(0.0)
    return float(policy.score(nodes, demand)[0])


@peer_cases("tlp_score")
def test_target_load_packing(case: Case) -> None:
    """The score of the node, or the node with the highest."""
    inputs = case.inputs
    nodes = inputs.get("nodes") or {"node": inputs["node"]}
    scores = {name: packing_score(inputs, node) for name, node in nodes.items()}

    case.check(rounding="nearest", score=scores.get("node"), winner=max(scores, key=lambda name: scores[name]))


@peer_cases("trimaran_pod_cache_cleanup")
def test_recent_placements(case: Case) -> None:
    """Trimaran remembers the pods that were placed within 60 s; a span of the product's has the same ones."""
    entries = case.inputs["entries"]
    placements = RecentPlacements((60.0,))
    for row, entry in enumerate(entries):
        placements.add(row, NOW - entry["age_s"], NOW - entry["age_s"])

    counts = placements.counts(len(entries), (60.0,), NOW)[:, 0]

    case.check(kept=[entry["name"] for entry, count in zip(entries, counts, strict=True) if count])


@pytest.mark.parametrize("age", [0.0, 5.0, 59.0, 60.0, 300.0, 899.0, 900.0, 1e9])
def test_a_placed_pod_is_in_the_load_for_as_long_as_the_mean_lacks_it(age: float) -> None:
    """Trimaran's pods are forgotten after 60 s; here the rest of them is added to a 15-minute mean until it has all."""
    pod = placed(a_spec({"containers": [{"cpu_m": 1000}]}), "recent", NOW - age)
    base = Resources(cpu=10.0, memory=2.0**30)
    node = a_node(base=base, mean=Resources(cpu=1.0, memory=0.0), pods=[pod], chain=TARGET_LOAD_PACKING)

    found = node.load[0, WINDOWS.index("15m"), 0]

    assert found == pytest.approx(0.1 + 0.15 * max(0.0, 1.0 - age / 900.0))


# LoadVariationRiskBalancing


def of_cpu(inputs: Inputs) -> CandidateNodes:
    """A node of which only CPU is measured; amounts are taken as cores."""
    return a_node(
        base=Resources(cpu=inputs["capacity"], memory=1.0),
        mean=Resources(cpu=inputs["used_avg"]),
        deviation=Resources(cpu=inputs["used_std"]),
    )


def of_metrics(inputs: Inputs) -> CandidateNodes:
    base = Resources(cpu=inputs["cpu_alloc_m"] / 1000.0, memory=inputs["mem_alloc_b"])
    return a_node(
        base=base,
        mean=measured(inputs["metrics"], base, operators=("AVG", "Latest", "")),
        deviation=measured(inputs["metrics"], base, operators=("STD",)),
    )


@peer_cases("lvrb_score")
def test_risk_balancing(case: Case) -> None:
    """The worse resource counts, and the only one when the other is unknown."""
    inputs = case.inputs
    settings = {
        "name": "risk_balancing",
        "safeVarianceMargin": inputs["margin"],
        "safeVarianceSensitivity": inputs["sensitivity"],
    }
    try:
        policy = msgspec.convert(settings, RiskBalancing)
    except msgspec.ValidationError:
        case.check(score="refused")
        return
    if "metrics" in inputs:
        nodes, demand = of_metrics(inputs), usage_of(inputs["pod_req_cpu_m"] / 1000.0, inputs["pod_req_mem_b"])
    else:
        nodes, demand = of_cpu(inputs), usage_of(inputs["pod_req"])

    case.check(rounding="nearest", score=policy.score(nodes, demand)[0].item())


@peer_cases("trimaran_mu_sigma")
def test_mean_and_deviation(case: Case) -> None:
    """Each a share of the node, at most 1: half the score is the mean with the pod, the other half the deviation."""
    nodes, demand = of_cpu(case.inputs), usage_of(case.inputs["pod_req"])
    steady = RiskBalancing(safe_variance_margin=0).score(nodes, demand)[0].item()
    varying = RiskBalancing().score(nodes, demand)[0].item()
    known = steady > 0

    case.check(mu=(100 - steady) / 50 if known else None, sigma=(steady - varying) / 50 if known else None)


@peer_cases("trimaran_resource_stats")
def test_resource_statistics(case: Case) -> None:
    """Amounts of a node and of the pod; the product has shares of the base."""
    inputs = case.inputs
    position, unit = {"CPU": (0, "cpu_m"), "Memory": (1, "mem_b")}[inputs["type"]]
    base = Resources(cpu=inputs["capacity"] / 1000, memory=inputs["capacity"])
    nodes = a_node(
        base=base,
        mean=measured(inputs["metrics"], base, operators=("AVG",)),
        deviation=measured(inputs["metrics"], base, operators=("STD",)),
    )
    demand = demand_for(a_spec({"containers": [{unit: inputs["pod_req"]}]}))
    scale = 1000 if unit == "cpu_m" else 1
    capacity = scale * nodes.base[0, position].item()
    mean, deviation = nodes.load[0, 1, position].item(), nodes.statistics["deviation"][0, 1, position].item()

    case.check(
        valid=not math.isnan(mean + deviation),
        capacity=capacity,
        pod_req=scale * demand.requests[position].item(),
        used_avg=capacity * mean,
        used_std=capacity * deviation,
    )


# LowRiskOverCommitment


def a_node_and_pod(cpu: Inputs, memory: Inputs | None = None) -> tuple[CandidateNodes, Demand]:
    """A node and a pod with these sums. Without memory, there is plenty, and hardly any of it is in use."""
    idle = {"capacity": 1e12, "request": 0, "limit": 0, "request_minus_pod": 0, "limit_minus_pod": 0, "avg_pct": 0}
    both = [cpu, idle | {"std_pct": 0} if memory is None else memory]

    def values(name: str) -> Array:
        return np.array([np.nan if part[name] is None else float(part[name]) for part in both])

    load, deviation = (np.tile(values(name) / 100.0, (1, 4, 1)) for name in ("avg_pct", "std_pct"))
    requested, limited = values("request_minus_pod"), values("limit_minus_pod")
    nodes = node_loads(load, statistics={"deviation": deviation}, requests=requested[None], limits=limited[None])
    requests, limits = values("request") - requested, values("limit") - limited
    demand = Demand(usage=np.tile(requests, (4, 1)), sources={}, requests=requests, limits=limits)
    return msgspec.structs.replace(nodes, base=values("capacity")[np.newaxis]), demand


@peer_cases("lroc", where=lambda case: "weight" in case.inputs)
def test_risk_of_overcommitment(case: Case) -> None:
    """Of one resource: of the limits, of the load, and together."""
    inputs = case.inputs
    policy = LowRiskOvercommit(
        smoothing_window_size=inputs["smoothing_window"],
        risk_limit_weights=RiskLimitWeights(cpu=inputs["weight"], memory=inputs["weight"]),
    )
    nodes, demand = a_node_and_pod(inputs)
    of_load = load_risk(
        nodes.load[:, 0],
        nodes.statistics["deviation"][:, 0],
        requests=nodes.requests / nodes.base,
        limits=nodes.limits / nodes.base,
    )[0, 0].item()

    case.check(
        risk=1 - policy.score(nodes, demand)[0].item() / 100,
        risk_limit=limit_risk(*with_pod(nodes, demand), nodes.base)[0, 0].item(),
        risk_load=None if math.isnan(of_load) else of_load,
    )


@peer_cases("lroc", where=lambda case: "best_effort" in case.inputs)
def test_a_pod_without_requests_and_limits_has_no_risk(case: Case) -> None:
    """Every node gets 0: the policy expresses no preference."""
    scores = LowRiskOvercommit().score(node_loads(evenly([case.inputs["avg_pct"]])), usage_of(0.0))

    case.check(score=scores[0].item())


@peer_cases("lroc", where=lambda case: "nodes" in case.inputs)
def test_limits_alone_may_decide(case: Case) -> None:
    """At weight 1 the busier node is first, as its limits fit; memory that is not measured does not matter."""
    policy = LowRiskOvercommit(risk_limit_weights=RiskLimitWeights(cpu=1.0, memory=1.0))
    scores = {
        name: policy.score(*a_node_and_pod(node["cpu"], node["memory"]))[0]
        for name, node in case.inputs["nodes"].items()
    }

    case.check(winner=max(scores, key=lambda name: scores[name]))


@peer_cases("trimaran_effective_resource")
def test_requests_and_limits_of_a_pod(case: Case) -> None:
    """The sum of the containers, or the largest init container, and the overhead."""
    inputs = case.inputs
    if case.test.startswith("TestGetResourceRequested"):
        found = pod_requests(a_spec(inputs))
        case.check(cpu_m=1000 * found.get("cpu", 0.0), mem_b=found.get("memory", 0.0))
        return
    assert case.test.startswith("TestGetResourceLimits")
    kinds = ("containers", "init_containers")
    pod = a_spec({kind: [{} for _ in inputs[kind]] for kind in kinds} | {"overhead": inputs["overhead"]}, inputs)
    cpu, memory = pod_limit(pod, "cpu"), pod_limit(pod, "memory")

    case.check(cpu_m=None if cpu is None else 1000 * cpu, mem_b=memory)


@peer_cases("trimaran_node_requests_limits")
def test_requests_and_limits_of_a_node(case: Case) -> None:
    """Sums over its pods, limits at least as high as requests, with the new pod and without."""
    inputs = case.inputs
    pods = [
        placed(a_spec(pod["requests"], pod["limits"]), str(at), 0.0) for at, pod in enumerate(inputs["pods_on_node"])
    ]
    demand = demand_for(a_spec(inputs["pod"]["requests"], inputs["pod"]["limits"]))
    capacity = cores(inputs["capacity"])
    requested, limited = sums_of_requests_and_limits(a_placement(pods=pods))
    nodes = msgspec.structs.replace(
        node_loads(evenly([0]), requests=requested[np.newaxis], limits=limited[np.newaxis]),
        base=np.array([[capacity.cpu, capacity.memory]]),
    )
    request, limit = with_pod(nodes, demand)

    def amounts(values: Array) -> dict[str, float]:
        return {"cpu_m": 1000 * values[0].item(), "mem_b": values[1].item()}

    case.check(
        request_minus_pod=amounts(requested),
        limit_minus_pod=amounts(limited),
        request=amounts(request[0]),
        limit=amounts(limit[0]),
    )


GRID = np.linspace(0.0, 1.0, 20_001)


def cdf(x: float, alpha: float, beta: float) -> float:
    return float(beta_cdf(np.array([x]), np.array([alpha]), np.array([beta]))[0])


def moment(order: int, alpha: float, beta: float) -> float:
    """E[Xⁿ] = ∫ n·xⁿ⁻¹·(1 - F(x)) dx."""
    values = order * GRID ** (order - 1) * (1 - beta_cdf(GRID, np.array(alpha), np.array(beta)))
    return float(((values[1:] + values[:-1]) / 2 * np.diff(GRID)).sum())


@peer_cases("lroc_beta")
def test_the_beta_distribution(case: Case) -> None:
    """Moments, the fit to them, density and distribution function; a distribution that does not exist has no mass."""
    inputs = case.inputs
    found: dict[str, Any] = {}
    match inputs["op"]:
        case "moments":
            alpha, beta = inputs["alpha"], inputs["beta"]
            found = {"valid": cdf(1.0, alpha, beta) == 1.0}
            if found["valid"]:
                m1, m2, m3 = (moment(order, alpha, beta) for order in (1, 2, 3))
                found |= {"m1": m1, "m2": m2, "m3": m3}
                fitted = matched(np.array([m1]), np.array([math.sqrt(m2 - m1**2)]))
                assert [value[0] for value in fitted] == pytest.approx([alpha, beta], rel=1e-4)
        case "match":
            deviation = math.sqrt(max(0.0, inputs["m2"] - inputs["m1"] ** 2))
            alpha, _ = matched(np.array([float(inputs["m1"])]), np.array([deviation]))
            found = {"matched": bool(alpha[0] > 0)}
        case "pdf":
            below, above = (cdf(inputs["x"] + step, inputs["alpha"], inputs["beta"]) for step in (-1e-4, 1e-4))
            found = {"value": (above - below) / 2e-4}
        case "cdf":
            found = {"value": cdf(inputs["x"], inputs["alpha"], inputs["beta"])}
        case "max_variance":
            found = {"value": greatest_variance(np.array([float(inputs["m1"])]))[0].item()}

    case.check(within=1e-5, **found)


# Peaks


def a_fleet(nodes: dict[str, Inputs]) -> CandidateNodes:
    utilization = [np.nan if node["cpu_util_pct"] is None else float(node["cpu_util_pct"]) for node in nodes.values()]
    base = np.array([[node["cpu_capacity_m"] / 1000.0, 1.0] for node in nodes.values()])
    return msgspec.structs.replace(node_loads(evenly(utilization), names=list(nodes)), base=base)


@peer_cases("peaks", where=lambda case: "node" in case.inputs)
def test_extra_power(case: Case) -> None:
    """In units of 10⁻¹⁵, rounded down. A pod that requests nothing adds none, on a full node neither."""
    node, model = case.inputs["node"], case.inputs["node"]["model"]
    used = math.nan if node["cpu_util_pct"] is None else node["cpu_util_pct"] / 100
    share = case.inputs["pod_req_cpu_m"] / node["cpu_capacity_m"]

    raw = 1e15 * extra_power(np.array([used]), np.array([share]), np.array(model["k1"]), np.array(model["k2"]))[0]

    case.check(rounding="down", raw_score=None if math.isnan(raw) else raw.item())


@peer_cases("peaks", where=lambda case: "nodes" in case.inputs)
def test_the_node_that_draws_least_more_power(case: Case) -> None:
    """By the power that the pod adds to each."""
    nodes = case.inputs["nodes"]
    policy = Peaks(node_power_model={name: PowerModel(**node["model"]) for name, node in nodes.items()})

    scores = policy.score(a_fleet(nodes), a_demand(case.inputs["pod_req_cpu_m"] / 1000)).tolist()

    case.check(winner=list(nodes)[int(np.argmax(scores))], normalised=dict(zip(nodes, scores, strict=True)))


@peer_cases("peaks", where=lambda case: "raw_scores" in case.inputs)
def test_normalised_power(case: Case) -> None:
    """Idle nodes whose power models make the pod cost as much as the raw scores; one without metrics is unknown."""
    raw = case.inputs["raw_scores"]
    most = max(*raw.values(), 1)
    models = {name: PowerModel(k0=0.0, k1=100.0 * cost / most, k2=0.01) for name, cost in raw.items()}
    nodes = {name: {"cpu_util_pct": None if name == "no-metrics" else 0, "cpu_capacity_m": 1_000} for name in raw}
    known = {name: model for name, model in models.items() if name != "no-metrics"}
    policy = Peaks(node_power_model=known, default_power_model=None)

    scores = policy.score(a_fleet(nodes), a_demand(0.1)).tolist()

    case.check(rounding="down", normalised=dict(zip(raw, scores, strict=True)))
