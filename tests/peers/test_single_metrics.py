"""Telemetry Aware Scheduling, and Volcano's plugins usage and rescheduling."""

from typing import Any

import msgspec
import numpy as np
from builders import NOW, a_placed_pod
from descheduler.cluster_states import a_cluster, a_loaded_node, names
from peers.cases import Case, Inputs, peer_cases
from peers.trimaran import a_node, a_spec
from scorer.clusters import a_demand, node_loads

from equipoise.contracts.configuration.settings import LoadSettings, ResourceThresholds, Thresholds
from equipoise.contracts.kubernetes.requests import pod_limit, pod_requests
from equipoise.contracts.load.correction import PodLifetime, corrected, correction_factor, load_of
from equipoise.contracts.load.metric_rule import MetricRule
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.numeric import Array
from equipoise.descheduler.decisions.strategies.low_node_load import LowNodeLoad
from equipoise.scorer.decisions.arrays import CandidateNodes, FurtherLoads, LoadRanges
from equipoise.scorer.decisions.policies.load_aware import LoadAware, LoadAwareWeights
from equipoise.scorer.decisions.policies.rules import MetricRules, Preference

NOTHING = a_demand(0.0)
LOAD = LoadSettings()

# Telemetry Aware Scheduling. A metric with a capacity of 100 is compared as it is.


def a_rule(operator: str, target: float, metric: str = "value") -> MetricRule | None:
    """None: the configuration is refused."""
    try:
        return msgspec.convert({"metric": metric, "operator": operator, "target": target}, MetricRule)
    except msgspec.ValidationError:
        return None


@peer_cases("tas", where=lambda case: case.inputs["op"] == "rule")
def test_a_rule_of_telemetry_aware_scheduling(case: Case) -> None:
    """The operators are those of the peer."""
    rule = a_rule(case.inputs["operator"], case.inputs["target"])
    case.check(violated="refused" if rule is None else rule.matches(case.inputs["value"]))


def measured_nodes(metrics: dict[str, dict[str, float]], candidates: list[str]) -> CandidateNodes:
    """Nodes with these values in percent; a metric without a value is unknown."""
    known = {name for values in metrics.values() for name in values}
    load = np.full((len(candidates), 4, 2), np.nan)
    load[[index for index, name in enumerate(candidates) if name in known]] = 0.0
    further = [name for name in metrics if name not in ("cpu", "memory")]
    for column, name in enumerate(("cpu", "memory")):
        if name in metrics:
            load[:, :, column] = values_of(metrics[name], candidates)[:, np.newaxis]
    shares = (
        np.array([values_of(metrics[name], candidates) for name in further]).reshape(len(further), len(candidates)).T
    )
    nowhere = np.zeros(shares.shape, dtype=np.bool_)
    loads = FurtherLoads(names=tuple(further), load=shares, lacking=nowhere, of_all=LoadRanges.of(shares))
    return msgspec.structs.replace(node_loads(load, names=candidates), further=loads)


def values_of(values: dict[str, float], candidates: list[str]) -> Array:
    return np.array([values.get(name, np.nan) for name in candidates]) / 100.0


def avoiding(inputs: Inputs) -> MetricRules:
    rules = [a_rule(rule["operator"], rule["target"], rule["metric"]) for rule in inputs["rules"]]
    match = "all" if inputs.get("logical") == "allOf" else "any"
    return MetricRules(avoid=tuple(rule for rule in rules if rule is not None), match=match)


@peer_cases("tas", where=lambda case: case.inputs["op"] in ("violations", "filter"))
def test_the_filter_of_telemetry_aware_scheduling(case: Case) -> None:
    """The nodes that `rules` refuses and avoids."""
    metrics: dict[str, dict[str, float]] = case.inputs["metrics"]
    candidates = sorted({name for values in metrics.values() for name in values})
    nodes, policy = measured_nodes(metrics, candidates), avoiding(case.inputs)
    refused = sorted(policy.refuse(nodes, NOTHING) or {})
    avoided = [name for name, score in zip(candidates, policy.score(nodes, NOTHING), strict=True) if not score]

    assert refused == avoided
    case.check(**dict.fromkeys(case.expected, refused))


@peer_cases("tas", where=lambda case: case.inputs["op"] == "prioritise")
def test_the_scores_of_telemetry_aware_scheduling(case: Case) -> None:
    """As tenths of the policy's points, of the nodes to which the peer gives a score."""
    candidates: list[str] = case.inputs["candidates"]
    nodes = measured_nodes({"metric": case.inputs["metric"]}, candidates)
    policy = MetricRules(prefer=Preference(metric="metric", operator=case.inputs["operator"]))
    points = dict(zip(candidates, policy.score(nodes, NOTHING).tolist(), strict=True))
    case.check(scores={name: points[name] / 10 for name in case.expected["scores"]})


# Volcano's plugin usage is `load_aware` with weights and thresholds


def usage_plugin(cpu: float, memory: float) -> LoadAware | None:
    """None: the configuration is refused."""
    try:
        return LoadAware(window="5m", resource_weights=LoadAwareWeights(cpu=cpu, memory=memory))
    except ValueError:
        return None


def a_load(cpu: float, memory: float) -> CandidateNodes:
    """One node with these loads (0..1)."""
    return node_loads(np.tile([cpu, memory], (1, 4, 1)))


@peer_cases("volcano_usage", where=lambda case: case.inputs["op"] in ("load", "score"))
def test_the_composite_load_and_score_of_volcano(case: Case) -> None:
    """The score of the peer has a weight; its load is what the score lacks of 1."""
    inputs = case.inputs
    policy = usage_plugin(inputs["cpu_weight"], inputs["mem_weight"])
    if policy is None:
        case.check(value="refused")
        return
    score = float(policy.score(a_load(inputs["cpu"], inputs["mem"]), NOTHING)[0])
    case.check(value=1.0 - score / 100.0 if inputs["op"] == "load" else score * inputs["usage_weight"])


@peer_cases("volcano_usage", where=lambda case: case.inputs["op"] == "nodes")
def test_the_node_order_of_volcano(case: Case) -> None:
    """A pod that was just placed counts with what is expected of it; outdated metrics score 0."""
    inputs = case.inputs
    base = Resources(cpu=inputs["cpu_capacity_m"] / 1000.0, memory=inputs["mem_capacity_b"])
    policy = usage_plugin(inputs["cpu_weight"], inputs["mem_weight"])
    assert policy is not None

    def score(node: dict[str, Any]) -> float:
        age = node["metrics_age_s"]
        if age is None or age > LOAD.freshness.score:
            return float(policy.score(a_load(np.nan, np.nan), NOTHING)[0])
        mean = Resources(cpu=node["cpu_pct"] / 100 * base.cpu, memory=node["mem_pct"] / 100 * base.memory)
        expected = Resources(cpu=node.get("shadow_cpu_m", 0.0) / 1000, memory=node.get("shadow_mem_b", 0.0))
        pod = a_placed_pod(placed_at=NOW, running_since=None, requests=expected)
        return float(policy.score(a_node(base=base, mean=mean, pods=[pod], chain=("request",)), NOTHING)[0])

    case.check(scores={name: inputs["usage_weight"] * score(node) for name, node in inputs["nodes"].items()})


@peer_cases("volcano_usage", where=lambda case: case.inputs["op"] == "predicate")
def test_the_predicate_of_volcano(case: Case) -> None:
    """A node of unknown load is not refused."""
    thresholds = ResourceThresholds(cpu=case.inputs["cpu_threshold"], memory=case.inputs["mem_threshold"])
    refused = LoadAware(usage_thresholds=thresholds).refuse(a_load(np.nan, np.nan), NOTHING)
    assert refused is not None
    case.check(**{"pass": not refused}, reason=next(iter(refused.values()), None))


@peer_cases("volcano_usage", where=lambda case: case.inputs["op"] == "composite")
def test_the_utilization_of_volcano(case: Case) -> None:
    """Usage and what is added for new pods, as a share of the node."""
    capacity = case.inputs["capacity"]
    usage = Resources(cpu=case.inputs["real_pct"] / 100 * capacity + case.inputs["shadow_abs"])
    case.check(value=load_of(usage, Resources(cpu=capacity)).cpu)


@peer_cases("volcano_usage", where=lambda case: case.inputs["op"] == "track")
def test_which_pods_volcano_adds_to_the_measured_load(case: Case) -> None:
    """A pod counts as long as the window does not contain all of it."""
    age = case.inputs["start_age_s"]
    since = None if age is None else NOW - age
    pod = PodLifetime(placed_at=NOW - (age or 0.0), running_since=since, usage=Resources(cpu=1.0))
    factor = correction_factor(pod, sampled_at=NOW, length=case.inputs["delay_s"], load=LOAD)
    case.check(tracked=case.inputs["has_node"] and factor > 0.0)


@peer_cases("volcano_usage", where=lambda case: case.inputs["op"] == "shadow")
def test_what_volcano_adds_for_new_pods(case: Case) -> None:
    """The sum of the pods that are on the node; one that left without having been measured adds nothing."""
    pods: dict[str, tuple[str, PodLifetime]] = {}
    for event in case.inputs["events"]:
        if event[0] == "add":
            usage = Resources(cpu=event[3], memory=event[4])
            pods[event[2]] = event[1], PodLifetime(placed_at=NOW, usage=usage)
        else:
            pods.pop(event[1])

    def added(node: str) -> list[float | None]:
        of_node = [pod for name, pod in pods.values() if name == node]
        usage = corrected(Resources(cpu=0.0, memory=0.0), of_node, sampled_at=NOW, length=300.0, load=LOAD)
        return [usage.cpu, usage.memory]

    case.check(estimates={node: added(node) for node in case.expected["estimates"]})


@peer_cases("volcano_usage", where=lambda case: case.inputs["op"] == "pod")
def test_requests_and_limits_of_a_pod_in_volcano(case: Case) -> None:
    """Containers and sidecars together."""

    def containers(kind: str) -> Inputs:
        return {
            name: [container[kind] for container in case.inputs[name]] for name in ("containers", "init_containers")
        }

    pod = a_spec(containers("requests"), containers("limits"))
    sidecars = [
        msgspec.structs.replace(of_pod, restart_policy="Always" if given.get("restart_always") else "")
        for of_pod, given in zip(pod.spec.init_containers, case.inputs["init_containers"], strict=True)
    ]
    pod = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, init_containers=sidecars))
    requests = pod_requests(pod)
    limits = {"cpu_m": pod_limit(pod, "cpu"), "mem_b": pod_limit(pod, "memory")}
    case.check(
        requests={"cpu_m": 1000 * requests.get("cpu", 0.0), "mem_b": requests.get("memory", 0.0)},
        limits={name: limit and (1000 * limit if name == "cpu_m" else limit) for name, limit in limits.items()},
    )


# Volcano's plugin rescheduling is `low_node_load`


@peer_cases("volcano_rescheduling")
def test_the_rescheduling_of_volcano(case: Case) -> None:
    """A node that is cordoned is idle, and no target."""
    inputs = case.inputs
    nodes = [
        a_loaded_node(
            name, node["cpu_pct"] / 100, node["mem_pct"] / 100,
            target_refusal="it is cordoned" if node.get("unschedulable") else "",
        )
        for name, node in inputs["nodes"].items()
    ]  # fmt: skip
    thresholds = Thresholds(
        high=ResourceThresholds(**inputs["target_thresholds"]), low=ResourceThresholds(**inputs["thresholds"])
    )
    cluster, strategy = a_cluster(*nodes, thresholds=thresholds), LowNodeLoad(number_of_nodes=0)
    states = {node.node: node.state for node in strategy.classify(cluster)}
    targets = {node.name for node in nodes if not node.target_refusal}
    case.check(
        low=[name for name, state in states.items() if state == "idle" and name in targets],
        high=[name for name, state in states.items() if state == "hot"],
        acts=bool(strategy.plan(cluster, names(cluster)).moves),
    )
