"""Koordinator's LowNodeLoad, and LowNodeUtilization and HighNodeUtilization of sigs.k8s.io/descheduler."""

import math
from typing import Literal

import msgspec
import numpy as np
from builders import NOW
from descheduler.cluster_states import UNLIMITED, WINDOWS, a_cluster, a_node, a_pod, names, node_object, pod_info
from kube_objects import a_replica_set, owned_by
from peers.cases import Case, Inputs, peer_cases

from equipoise.contracts.configuration.protection import Protection
from equipoise.contracts.configuration.settings import Namespaces, ResourceThresholds, Thresholds
from equipoise.contracts.eviction.candidate import Candidate, Rules
from equipoise.contracts.eviction.protection import MIRROR, of_daemon_set, protection, static
from equipoise.contracts.kubernetes.objects.cluster import Namespace
from equipoise.contracts.kubernetes.objects.metadata import (
    Condition,
    ObjectMeta,
    ResourceRequirements,
    SelectorRequirement,
)
from equipoise.contracts.kubernetes.objects.node import NodeSelector, NodeSelectorTerm, Taint
from equipoise.contracts.kubernetes.objects.pod import (
    Affinity,
    Container,
    NodeAffinity,
    Pod,
    PodSpec,
    PodStatus,
    Toleration,
    Volume,
)
from equipoise.contracts.kubernetes.owners import workload_from_pod
from equipoise.contracts.load.pod_priority import PRIORITY_CLASS_LABEL, QOS_LABEL
from equipoise.contracts.messages.descheduling import NodeClassification
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.cluster import ClusterView, PodMove
from equipoise.descheduler.decisions.cluster_node import ClusterNode, MovablePod, Resource
from equipoise.descheduler.decisions.planning.classification import excess_text
from equipoise.descheduler.decisions.planning.node_arrays import MEASURED, amounts, bases
from equipoise.descheduler.decisions.planning.pod_order import in_order
from equipoise.descheduler.decisions.planning.pools import ComparisonWeights
from equipoise.descheduler.decisions.planning.target_selection import least_loaded_target, target_nodes
from equipoise.descheduler.decisions.planning.thresholds import (
    AppliedThresholds,
    Deviation,
    KnownLoads,
    deviating,
    fixed,
)
from equipoise.descheduler.decisions.strategies.bin_pack import BinPack
from equipoise.descheduler.decisions.strategies.low_node_load import LowNodeLoad
from equipoise.descheduler.state.abnormal_counts import AbnormalCounts, abnormal_nodes, counted
from equipoise.descheduler.state.projection import Projection
from equipoise.scheduling.model.pod_info import PodInfo

UNITS: dict[str, Resource] = {"cpu_m": "cpu", "cpu": "cpu", "memory_b": "memory", "memory": "memory", "pods": "pods"}

# Reading a case


def marks(given: dict[str, float]) -> ResourceThresholds:
    """Of the resources that are measured; others are only requested."""
    return ResourceThresholds(**{UNITS[name]: value for name, value in given.items() if name in UNITS})


def resources(given: dict[str, float]) -> Resources:
    amount = {UNITS[name]: value / 1000 if name == "cpu_m" else value for name, value in given.items() if name in UNITS}
    return Resources(cpu=amount.get("cpu", 0.0), memory=amount.get("memory", 0.0))


def requests(given: dict[str, float]) -> dict[str, float]:
    return {UNITS.get(name, name): value / 1000 if name == "cpu_m" else float(value) for name, value in given.items()}


RULES = Rules(protection=Protection(), namespaces=Namespaces(exclude=()), own_namespace="equipoise-system")


def an_api_pod(pod: Inputs) -> Pod:
    """The pod as the API server has it: running and ready."""
    owner, amounts_requested = pod.get("owner", pod.get("owner_kind")), requests(pod["requests"])
    affinity = pod.get("required_affinity_in") or pod.get("required_node_affinity") or {}
    rules = [SelectorRequirement(key=key, operator="In", values=values) for key, values in affinity.items()]
    selector = NodeSelector(node_selector_terms=[NodeSelectorTerm(match_expressions=rules)]) if rules else None
    quantities = {name: str(amount) for name, amount in amounts_requested.items()}
    return Pod(
        metadata=ObjectMeta(
            uid=f"uid-{pod['name']}",
            namespace=pod["namespace"],
            name=pod["name"],
            labels={PRIORITY_CLASS_LABEL: pod["priority_class_label"]} if pod.get("priority_class_label") else {},
            annotations={MIRROR: "mirror"} if pod["mirror"] else {},
            owner_references=owned_by(owner, "owner") if owner else [],
        ),
        spec=PodSpec(
            containers=[Container(resources=ResourceRequirements(requests=quantities))],
            priority=pod["priority"] or 0,
            node_selector=pod.get("node_selector") or {},
            affinity=Affinity(node_affinity=NodeAffinity(required=selector)),
            tolerations=[
                Toleration(key=each["key"], operator=each["op"], value=each["value"], effect=each["effect"])
                for each in pod.get("tolerations", ())
            ],
            volumes=[Volume(name="scratch", empty_dir={})] if pod["local_storage"] else [],
        ),
        status=PodStatus(
            phase="Running",
            conditions=[Condition(type="Ready", status="True")],
            qos_class=pod.get("k8s_qos")
            or ("Burstable" if amounts_requested.get("cpu") or amounts_requested.get("memory") else "BestEffort"),
        ),
    )


def a_case_pod(given: Inputs, usage: Resources) -> MovablePod:
    """Only workloads of ReplicaSets can be read, as in a cluster."""
    pod = an_api_pod(given)
    controller = pod.metadata.controller
    replicated = controller is not None and controller.kind == "ReplicaSet"
    candidate = Candidate(
        pod=pod,
        namespace=Namespace(),
        workload=workload_from_pod(pod),
        owners=(a_replica_set(),) if replicated else (),
    )
    return a_pod(
        pod.metadata.name,
        namespace=pod.metadata.namespace,
        usage=usage,
        priority=pod.spec.priority,
        qos=pod.status.qos_class,
        protection=protection(candidate, RULES, NOW),
        belongs_to_node=bool(static(candidate, RULES, NOW) or of_daemon_set(candidate, RULES, NOW)),
        info=PodInfo(pod),
    )


def a_case_node(node: Inputs, pods: list[MovablePod], usage: Resources | None) -> ClusterNode:
    allocatable = requests(node["allocatable"])
    fields: Inputs = {} if usage is None else {"usage": dict.fromkeys(WINDOWS, usage)}
    return a_node(
        node["name"],
        pods,
        base=resources(node["allocatable"]),
        target_refusal="node is cordoned" if node["unschedulable"] else "",
        object=node_object(
            node["name"],
            allocatable,
            labels=node["labels"],
            taints=[Taint(**taint) for taint in node.get("taints", ())],
            cordoned=node["unschedulable"],
        ),
        **fields,
    )


def a_case_fleet(inputs: Inputs, thresholds: Thresholds, **limits: int) -> ClusterView:
    """By measured usage where there is one, else pods use what they request."""
    measured = inputs.get("measured_usage")
    nodes = []
    for node in inputs["nodes"]:
        pods = []
        for pod in inputs["pods"]:
            if pod["node"] == node["name"]:
                given = pod.get("usage", pod["requests"]) if measured is None else measured["pods"].get(pod["name"])
                pods.append(a_case_pod(pod, Resources() if given is None else resources(given)))
        usage = None if measured is None else resources(measured["nodes"][node["name"]])
        nodes.append(a_case_node(node, pods, usage))
    return a_cluster(*nodes, thresholds=thresholds, limits=msgspec.structs.replace(UNLIMITED, **limits))


def plan_of(strategy: LowNodeLoad | BinPack, cluster: ClusterView) -> list[PodMove]:
    return list(strategy.plan(cluster, names(cluster)).moves)


# Whole runs


@peer_cases("low_node_load.outcome")
def test_koordinator_low_node_load(case: Case) -> None:
    """As many pods are evicted, and the same ones where the case names them. Koordinator has no margin."""
    inputs = case.inputs
    given = inputs["thresholds_percent"]
    thresholds = Thresholds(
        high=marks(given["high"]),
        low=marks(given["low"]),
        prod_high=marks(given["prod_high"]),
        prod_low=marks(given["prod_low"]),
    )
    include, exclude = inputs["namespaces_include"], inputs["namespaces_exclude"]
    strategy = LowNodeLoad(
        margin=0,
        number_of_nodes=inputs["number_of_nodes"],
        namespaces=Namespaces(include=tuple(include) or None, exclude=None if include else tuple(exclude)),
    )
    cluster = a_case_fleet(inputs, thresholds, per_evaluation=inputs["max_evictions_total"] or 10_000)

    moves = plan_of(strategy, cluster)

    case.check(evicted_count=len(moves), evicted_names_sorted=sorted(move.pod.name for move in moves))


def low_node_utilization(inputs: Inputs) -> tuple[LowNodeLoad, Thresholds]:
    low, high = marks(inputs["thresholds"]), marks(inputs["target_thresholds"])
    if inputs["use_deviation"]:
        nothing = Thresholds(high=ResourceThresholds(), low=ResourceThresholds())
        return LowNodeLoad(margin=0, deviation=Deviation(high=high, low=low, floor=0), number_of_nodes=0), nothing
    return LowNodeLoad(margin=0, number_of_nodes=inputs["number_of_nodes"]), Thresholds(high=high, low=low)


@peer_cases("low_node_utilization")
def test_low_node_utilization(case: Case) -> None:
    """As many pods are evicted by measured usage, and as many by requests where pods use what they request."""
    strategy, thresholds = low_node_utilization(case.inputs)
    per_node = case.inputs.get("eviction_limit_node") or case.inputs.get("max_evict_per_node") or 10_000

    def evicted(inputs: Inputs) -> list[str]:
        cluster = a_case_fleet(inputs, thresholds, per_node=per_node)
        return sorted(move.pod.name for move in plan_of(strategy, cluster))

    by_requests = evicted(case.inputs | {"measured_usage": None})
    case.check(
        evicted_by_requests=len(by_requests),
        evicted_by_measured_usage=len(evicted(case.inputs)),
        evicted_set_when_by_requests=by_requests,
    )


@peer_cases("low_node_utilization_fraction")
def test_a_pod_without_a_measurement_is_not_evicted(case: Case) -> None:
    """A node may be hot, and still nobody is evicted on a guess."""
    inputs = case.inputs
    nodes = []
    for node in inputs["nodes"]:
        pods = [a_case_pod(pod, Resources()) for pod in inputs["pods"] if pod["node"] == node["name"]]
        cores = node["allocatable"]["cpu_m"] / 1000 * inputs["node_fraction"][node["name"]]
        nodes.append(a_case_node(node, pods, Resources(cpu=cores, memory=0.0)))
    span = Deviation(
        high=ResourceThresholds(cpu=inputs["target"]), low=ResourceThresholds(cpu=inputs["threshold"]), floor=0
    )
    cluster = a_cluster(*nodes, thresholds=Thresholds(high=ResourceThresholds(), low=ResourceThresholds()))
    strategy = LowNodeLoad(margin=0, deviation=span)

    assert {entry.node: entry.state for entry in strategy.classify(cluster)}["n1"] == "hot"
    case.check(evicted=len(plan_of(strategy, cluster)))


@peer_cases("high_node_utilization")
def test_high_node_utilization(case: Case) -> None:
    """A node is emptied whole or not at all; without a high threshold only requests limit the targets."""
    inputs = case.inputs
    strategy = BinPack(thresholds=marks(inputs["thresholds"]), number_of_nodes=inputs["number_of_nodes"])
    cluster = a_case_fleet(inputs, Thresholds(high=ResourceThresholds(), low=ResourceThresholds()))

    moves = plan_of(strategy, cluster)

    case.check(evicted=len(moves), evicted_set=sorted(move.pod.name for move in moves))


# Parts


@peer_cases("low_node_load.anomaly")
def test_evaluations_in_a_row(case: Case) -> None:
    """A node is abnormal after this many evaluations in a row."""
    inputs = case.inputs
    needed = inputs.get("consecutive_abnormalities") or inputs["to_anomaly_when_consecutive_abnormal_at_least"]
    counts: AbnormalCounts = {}
    states = []
    for place, mark in enumerate(inputs["marks"]):
        at = NOW + 120.0 * place
        state: Literal["hot", "between"] = "hot" if mark == "abnormal" else "between"
        node = NodeClassification(node="a", state=state, load=Resources(), sampled_at=at)
        counts = counted(counts, [node], now=at, interval=120)
        states.append("anomaly" if "a" in abnormal_nodes(counts, needed) else "ok")

    case.check(states=states, acted_on=states[-1] == "anomaly")


@peer_cases("low_node_load.reason")
def test_the_reason_of_an_eviction(case: Case) -> None:
    """Resource, usage and threshold, as the users of Koordinator read them in Events."""
    inputs = case.inputs
    load = {UNITS[unit]: inputs["usage"][unit] / inputs["allocatable"][unit] for unit in ("cpu_m", "memory_b")}
    high = {UNITS[name]: value / 100 for name, value in inputs["high_percent"].items()}

    case.check(text=excess_text(load, high, inputs["scope"]))


def a_used_node(name: str, usage: Inputs, allocatable: Inputs) -> ClusterNode:
    """As many pods as the case has, none of which uses anything by itself."""
    return a_node(
        name,
        base=resources(allocatable),
        usage=dict.fromkeys(WINDOWS, resources(usage)),
        object=node_object(name, requests(allocatable)),
        occupying=[pod_info(f"{name}-{i}") for i in range(int(usage.get("pods", 0)))],
    )


@peer_cases("low_node_load.percent", "usage_percent")
def test_loads_in_percent(case: Case) -> None:
    """Of what the node allocates; both peers round down, the product does not."""
    inputs = case.inputs
    node = a_used_node("a", inputs["usage"], inputs.get("allocatable") or inputs["capacity"])
    load = (amounts([node], "5m", projected=False) / bases([node]))[0]
    by_resource = dict(zip(MEASURED, load.tolist(), strict=True))
    percent = {
        name: None if math.isnan(by_resource[UNITS[name]]) else 100 * by_resource[UNITS[name]]
        for values in case.expected.values()
        for name in values
    }

    case.check(rounding="down", percent=percent, percent_floor=percent)


def hottest_first(strategy: LowNodeLoad, nodes: list[ClusterNode]) -> list[str]:
    """The order in which hot nodes are evaluated as sources; all of them are hot."""
    cluster = a_cluster(
        *nodes, thresholds=Thresholds(high=ResourceThresholds(cpu=0, memory=0, pods=0), low=ResourceThresholds())
    )
    closed = [msgspec.structs.replace(node, source_refusal="not a source") for node in cluster.nodes]
    cluster = msgspec.structs.replace(cluster, nodes=closed)
    strategy = msgspec.structs.replace(strategy, number_of_nodes=-1)
    return [entry.node for entry in strategy.plan(cluster, names(cluster)).refused]


@peer_cases("low_node_load.node_sort")
def test_the_weighted_order_of_nodes(case: Case) -> None:
    """The weighted mean of the shares decides, the number of pods among them."""
    inputs = case.inputs
    nodes = [a_used_node(node["name"], node, inputs["allocatable"]) for node in inputs["nodes"]]
    weights = ComparisonWeights(**inputs["weights"])

    case.check(descending=hottest_first(LowNodeLoad(weights=weights), nodes), ascending=emptiest_first(nodes))


def emptiest_first(nodes: list[ClusterNode]) -> list[str]:
    """The order in which nodes are evaluated to be emptied; all of them are below the thresholds."""
    closed = [msgspec.structs.replace(node, source_refusal="not a source") for node in nodes]
    cluster = a_cluster(*closed)
    plan = BinPack(thresholds=ResourceThresholds(cpu=100, memory=100, pods=100)).plan(cluster, names(cluster))
    return [entry.node for entry in plan.refused]


@peer_cases("sort_nodes_by_usage")
def test_the_order_of_nodes_by_memory(case: Case) -> None:
    """They add bytes to cores, so memory decides: as the name `memoryThenCpu` states."""
    inputs = case.inputs
    whole = {"cpu_m": 32_000, "memory": 64 * 2**30, "pods": 110}
    nodes = [a_used_node(name, usage, whole) for name, usage in inputs["usage"].items()]

    found = (
        emptiest_first(nodes) if inputs["ascending"] else hottest_first(LowNodeLoad(node_order="memoryThenCpu"), nodes)
    )

    case.check(order=found)


@peer_cases("low_node_load.pod_sort")
def test_the_pod_that_covers_the_excess_is_evicted_first(case: Case) -> None:
    """Only resources that are over count; the pod that just covers the excess comes before a far bigger one."""
    inputs = case.inputs
    excess = inputs.get("excess") or {
        unit: inputs["node_usage"][unit] - inputs["node_high"][unit] for unit in ("cpu_m", "memory_b")
    }
    pods = [a_pod(pod["name"], cpu=pod["cpu_m"], memory=pod["memory_b"]) for pod in inputs["pods"]]

    cpu, memory = 2.0**16, 2.0**40  # of the node: the ratios do not depend on it
    ordered = in_order(
        pods,
        base=Resources(cpu=cpu, memory=memory),
        excess={"cpu": excess["cpu_m"] / cpu, "memory": excess["memory_b"] / memory},
        weights=inputs["weights"],
    )

    case.check(evict_order=[pod.name for pod in ordered])


@peer_cases("low_node_load.pod_sort_keys")
def test_every_key_of_the_pod_order(case: Case) -> None:
    """Class, priority, QoS, Koordinator's QoS, both costs, measured before unmeasured, the younger first."""
    pods = [
        a_pod(
            pod["name"],
            cpu=0.0 if pod["has_metric"] else None,
            memory=0.0 if pod["has_metric"] else None,
            priority=pod["priority"],
            qos=pod["k8s_qos"],
            deletion_cost=pod["deletion_cost"],
            eviction_cost=pod["eviction_cost"],
            created_at=NOW + pod["created_offset_s"],
            info=pod_info(pod["name"], labels={QOS_LABEL: pod["koord_qos_label"]} if pod["koord_qos_label"] else {}),
        )
        for pod in case.inputs["pods"]
    ]

    ordered = iter(in_order(pods, base=Resources(cpu=1.0, memory=1.0), excess={}, weights={}))
    groups = case.expected["order_with_tie_groups"]

    case.check(order_with_tie_groups=[sorted(next(ordered).name for _ in group) for group in groups])


@peer_cases("low_node_load.target_fit")
def test_a_target_that_would_be_too_full(case: Case) -> None:
    """It is refused, and its projected usage does not change."""
    inputs = case.inputs
    source = a_node("source", [a_case_like_pod(inputs["pod_usage"])])
    usage, high = resources(inputs["target_usage"]), resources(inputs["target_high"])
    target = a_node("target", base=Resources(cpu=100.0, memory=10.0**12), usage=dict.fromkeys(WINDOWS, usage))
    ceiling: dict[Resource, float] = {"cpu": (high.cpu or 0) / 100.0, "memory": (high.memory or 0) / 10.0**12}
    levels = AppliedThresholds(hot=ceiling, ceiling=ceiling, idle={}, aim=ceiling)
    cluster = a_cluster(source, target)
    projection = Projection(cluster, "5m")

    targets = target_nodes(cluster.nodes, projection, levels, target_threshold=1.0)
    found = least_loaded_target(source.pods[0], source, targets, projection, hot=["cpu"], weights={"cpu": 1.0})
    after = projection.load(target)

    case.check(
        fits=found.target is not None,
        target_usage_after={"cpu_m": 100_000 * after["cpu"], "memory_b": 10**12 * after["memory"]},
    )


def a_case_like_pod(usage: dict[str, float]) -> MovablePod:
    return a_pod("p", usage=resources(usage))


@peer_cases("classify_deviation")
def test_thresholds_around_the_mean(case: Case) -> None:
    """Nodes beyond them are hot or idle."""
    inputs = case.inputs
    span = Deviation(
        high=ResourceThresholds(cpu=inputs["high_span"]), low=ResourceThresholds(cpu=inputs["low_span"]), floor=0
    )
    nodes = [
        a_node(name, usage=dict.fromkeys(WINDOWS, Resources(cpu=percent / 10, memory=0.0)))
        for name, percent in inputs["percent"].items()
    ]
    cluster = a_cluster(*nodes, thresholds=Thresholds(high=ResourceThresholds(), low=ResourceThresholds()))
    states = {entry.node: entry.state for entry in LowNodeLoad(deviation=span).classify(cluster)}
    anyone = np.ones(len(nodes), dtype=np.bool_)
    load = amounts(nodes, "5m", projected=False) / bases(nodes)
    known = KnownLoads(load=load, expected=load, base=bases(nodes), source=anyone, target=anyone)
    levels = deviating(known, span.high, span.low, 0.0, fixed(ResourceThresholds(), ResourceThresholds(), 0.0))

    case.check(
        average=100 * levels.aim["cpu"],
        low=100 * levels.idle["cpu"],
        high=100 * levels.ceiling["cpu"],
        under=[name for name, state in states.items() if state == "idle"],
        over=[name for name, state in states.items() if state == "hot"],
    )


# Rules that docs/peers.md lists


def test_a_node_idle_in_production_is_filled_up_to_its_target_threshold() -> None:
    """Koordinator fills it up to `prodHigh`, whatever else it runs; here its whole load has a limit as well."""
    batch = a_node("batch", [a_pod(f"batch-{i}", cpu=1.3, priority=5_500) for i in range(5)])
    productive = a_node("productive", [a_pod(f"web-{i}", cpu=1.0) for i in range(6)])
    thresholds = Thresholds(
        high=ResourceThresholds(cpu=80),
        low=ResourceThresholds(cpu=40),
        prod_high=ResourceThresholds(cpu=40),
        prod_low=ResourceThresholds(cpu=20),
    )
    cluster = a_cluster(productive, batch, thresholds=thresholds)

    def evicted(target_threshold: float) -> int:
        return len(plan_of(LowNodeLoad(margin=0, target_threshold=target_threshold), cluster))

    assert evicted(50) == 0  # batch has 65 %, and may have 60 %
    assert evicted(100) == 1  # 75 % of at most 80 %
