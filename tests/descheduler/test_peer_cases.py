"""The numeric cases of Koordinator's LowNodeLoad and of sigs.k8s.io/descheduler, and why we differ where we do."""

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from builders import NOW
from descheduler.cluster_states import UNLIMITED, WINDOWS, a_cluster, a_node, a_pod, names

from equipoise.contracts.configuration.settings import Marks, Namespaces, Thresholds
from equipoise.contracts.fit import FitNode, FitPod
from equipoise.contracts.kubernetes.objects import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Toleration
from equipoise.contracts.messages.placement import Taint
from equipoise.contracts.messages.resources import Resources
from equipoise.descheduler.decisions.planning.classification import excess_text
from equipoise.descheduler.decisions.planning.draft import PlanDraft
from equipoise.descheduler.decisions.planning.node_arrays import MEASURED, amounts, bases
from equipoise.descheduler.decisions.planning.pod_order import in_order
from equipoise.descheduler.decisions.planning.pools import Weights
from equipoise.descheduler.decisions.planning.projection import Projection
from equipoise.descheduler.decisions.planning.target_selection import least_loaded_target, target_nodes
from equipoise.descheduler.decisions.planning.thresholds import AppliedThresholds, Deviation
from equipoise.descheduler.decisions.strategies.bin_pack import BinPack
from equipoise.descheduler.decisions.strategies.low_node_load import LowNodeLoad
from equipoise.descheduler.state.abnormal_counts import AbnormalCounts, NodeObservation, abnormal_nodes, counted
from equipoise.descheduler.state.cluster import ClusterNode, ClusterState, MovablePod, PodMove, Resource
from equipoise.descheduler.state.pod_priority import QOS_LABEL, TIER_LABEL

Case = dict[str, Any]

CASES: list[Case] = json.loads((Path(__file__).parents[1] / "data" / "low_node_load_cases.json").read_text())["cases"]

UNITS: dict[str, Resource] = {"cpu_m": "cpu", "cpu": "cpu", "memory_b": "memory", "memory": "memory", "pods": "pods"}

DIFFERENT: dict[str, tuple[object, str]] = {
    "lnl-08": (4, "an extended resource is requested, not used: it limits where pods fit, and makes no node hot"),
    "lnl-17": (
        2,
        "n2 gets no more production pods than its own mark of production allows: theirs fill it to 60% of 30",
    ),
    "anomaly-4": (["ok", "anomaly", "anomaly", "ok", "ok", "ok"], "N in a row are N, not N + 1; one normal one clears"),
    "anomaly-5": (
        ["ok", "anomaly", "ok", "ok", "ok", "ok", "anomaly", "ok", "ok", "ok", "ok", "ok"],
        "a node that is normal once is not abnormal any more",
    ),
    "U05-n3-zero-usage": (3, "a fourth pod would bring n2 to 2005 m of 2000 m: they stop only when it is full"),
    "U06-priorities": (3, "as U05"),
    "U07-best-effort-first": (3, "as U05"),
    "U08-extended": (4, "usage of an extended resource is not measured: theirs gives the whole run up for it"),
    "X03-deviation-limit2": (0, "pods without a measurement stay: theirs takes two, whatever they use"),
    "Y02-percent-zero-capacity": (None, "a share of nothing is unknown, not 0"),
    "Z06-priorities": (
        0,
        "n1 cannot be emptied: there is room for one of its two pods, and half an empty node is none",
    ),
    "Z07-best-effort-first": (0, "n1 cannot be emptied: n2 takes one more pod only"),
}
"""By case: what we do, and why."""


def of(*features: str) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in CASES if case["feature"] in features]


def ours(case: Case, theirs: object) -> object:
    return DIFFERENT[case["id"]][0] if case["id"] in DIFFERENT else theirs


def test_no_case_is_left_out() -> None:
    """Each belongs to one of the tests below, and each difference to a case."""
    assert Counter(case["feature"] for case in CASES) == {
        "low_node_load.outcome": 14,
        "low_node_load.anomaly": 3,
        "low_node_load.reason": 2,
        "low_node_load.percent": 1,
        "low_node_load.node_sort": 1,
        "low_node_load.pod_sort": 2,
        "low_node_load.pod_sort_keys": 1,
        "low_node_load.target_fit": 1,
        "low_node_utilization": 14,
        "low_node_utilization_fraction": 1,
        "high_node_utilization": 7,
        "usage_percent": 2,
        "sort_nodes_by_usage": 2,
        "classify_deviation": 1,
    }
    assert len({case["id"] for case in CASES}) == len(CASES)
    assert DIFFERENT.keys() <= {case["id"] for case in CASES}


# Reading a case


def marks(told: dict[str, float]) -> Marks:
    """Of the resources that are measured; others are only requested."""
    return Marks(**{UNITS[name]: value for name, value in told.items() if name in UNITS})


def resources(told: dict[str, float]) -> Resources:
    amount = {UNITS[name]: value / 1000 if name == "cpu_m" else value for name, value in told.items() if name in UNITS}
    return Resources(cpu=amount.get("cpu", 0.0), memory=amount.get("memory", 0.0))


def requests(told: dict[str, float]) -> dict[str, float]:
    return {UNITS.get(name, name): value / 1000 if name == "cpu_m" else float(value) for name, value in told.items()}


def required(labels: dict[str, list[str]]) -> NodeSelector | None:
    rules = [NodeSelectorRequirement(key=key, operator="In", values=values) for key, values in labels.items()]
    return NodeSelector(node_selector_terms=[NodeSelectorTerm(match_expressions=rules)]) if rules else None


def a_case_pod(pod: Case, usage: Resources) -> MovablePod:
    owner = pod.get("owner", pod.get("owner_kind"))
    priority = pod["priority"] or 0
    lifetimes = pod["mirror"] or pod["local_storage"] or owner != "ReplicaSet" or priority >= 2_000_000_000
    asked = requests(pod["requests"])
    fit = FitPod(
        uid=f"uid-{pod['name']}",
        namespace=pod["namespace"],
        name=pod["name"],
        labels={TIER_LABEL: pod["priority_class_label"]} if pod.get("priority_class_label") else {},
        requests=asked,
        node_selector=pod.get("node_selector") or {},
        node_affinity=required(pod.get("required_affinity_in") or pod.get("required_node_affinity") or {}),
        tolerations=[
            Toleration(key=each["key"], operator=each["op"], value=each["value"], effect=each["effect"])
            for each in pod.get("tolerations", ())
        ],
    )
    return a_pod(
        pod["name"],
        namespace=pod["namespace"],
        usage=usage,
        priority=priority,
        qos=pod.get("k8s_qos") or ("Burstable" if asked.get("cpu") or asked.get("memory") else "BestEffort"),
        protection="it must stay" if lifetimes else "",
        belongs_to_node=owner == "DaemonSet" or pod["mirror"],
        fit=fit,
    )


def a_case_node(node: Case, pods: list[MovablePod], usage: Resources | None) -> ClusterNode:
    allocatable = requests(node["allocatable"])
    fields: Case = {} if usage is None else {"usage": dict.fromkeys(WINDOWS, usage)}
    return a_node(
        node["name"],
        pods,
        base=resources(node["allocatable"]),
        target_refusal="node is cordoned" if node["unschedulable"] else "",
        fit=FitNode(
            name=node["name"],
            labels=node["labels"],
            taints=[Taint(**taint) for taint in node.get("taints", ())],
            cordoned=node["unschedulable"],
            allocatable=allocatable,
            pods=[pod.fit for pod in pods],
        ),
        **fields,
    )


def a_case_fleet(inputs: Case, thresholds: Thresholds, **limits: int) -> ClusterState:
    """By measured usage where there is one, else pods use what they ask for."""
    measured = inputs.get("measured_usage")
    nodes = []
    for node in inputs["nodes"]:
        pods = []
        for pod in inputs["pods"]:
            if pod["node"] == node["name"]:
                told = pod.get("usage", pod["requests"]) if measured is None else measured["pods"].get(pod["name"])
                pods.append(a_case_pod(pod, Resources() if told is None else resources(told)))
        usage = None if measured is None else resources(measured["nodes"][node["name"]])
        nodes.append(a_case_node(node, pods, usage))
    return a_cluster(*nodes, thresholds=thresholds, limits=msgspec.structs.replace(UNLIMITED, **limits))


def plan_of(strategy: LowNodeLoad | BinPack, cluster: ClusterState) -> list[PodMove]:
    return list(strategy.plan(cluster, names(cluster)).moves)


# Whole runs


@pytest.mark.parametrize("case", of("low_node_load.outcome"))
def test_koordinator_runs(case: Case) -> None:
    """As many pods leave, and the same ones where the case names them. No margin, as they have none."""
    inputs = case["inputs"]
    told = inputs["thresholds_percent"]
    thresholds = Thresholds(
        high=marks(told["high"]),
        low=marks(told["low"]),
        prod_high=marks(told["prod_high"]),
        prod_low=marks(told["prod_low"]),
    )
    include, exclude = inputs["namespaces_include"], inputs["namespaces_exclude"]
    strategy = LowNodeLoad(
        margin=0,
        number_of_nodes=inputs["number_of_nodes"],
        namespaces=Namespaces(include=tuple(include) or None, exclude=None if include else tuple(exclude)),
    )
    cluster = a_case_fleet(inputs, thresholds, per_evaluation=inputs["max_evictions_total"] or 10_000)

    moves = plan_of(strategy, cluster)

    assert len(moves) == ours(case, case["expected"]["evicted_count"])
    expected = case["expected"].get("evicted_names_sorted")
    assert expected is None or sorted(move.pod.name for move in moves) == expected


def low_node_utilization(inputs: Case) -> tuple[LowNodeLoad, Thresholds]:
    low, high = marks(inputs["thresholds"]), marks(inputs["target_thresholds"])
    if inputs["use_deviation"]:
        nothing = Thresholds(high=Marks(), low=Marks())
        return LowNodeLoad(margin=0, deviation=Deviation(high=high, low=low, floor=0), number_of_nodes=0), nothing
    return LowNodeLoad(margin=0, number_of_nodes=inputs["number_of_nodes"]), Thresholds(high=high, low=low)


@pytest.mark.parametrize("case", of("low_node_utilization"))
def test_descheduler_runs(case: Case) -> None:
    """By measured usage as many leave as with their metrics, and where there are none as by requests."""
    inputs, expected = case["inputs"], case["expected"]
    strategy, thresholds = low_node_utilization(inputs)
    per_node = inputs.get("eviction_limit_node") or inputs.get("max_evict_per_node") or 10_000
    evicted = expected.get("evicted_by_measured_usage", expected["evicted_by_requests"])

    assert len(plan_of(strategy, a_case_fleet(inputs, thresholds, per_node=per_node))) == ours(case, evicted)


@pytest.mark.parametrize("case", of("low_node_utilization"))
def test_descheduler_runs_by_requests(case: Case) -> None:
    """Where pods use what they ask for, as many leave as by requests."""
    inputs = {name: value for name, value in case["inputs"].items() if name != "measured_usage"}
    strategy, thresholds = low_node_utilization(inputs)
    per_node = inputs.get("eviction_limit_node") or inputs.get("max_evict_per_node") or 10_000
    by_requests = BY_REQUESTS.get(case["id"], case["expected"]["evicted_by_requests"])

    assert len(plan_of(strategy, a_case_fleet(inputs, thresholds, per_node=per_node))) == by_requests


BY_REQUESTS = {"U08-extended": 4, "U10-extended-deviation": 0}
"""An extended resource makes no node hot or idle here: the number of pods alone decides."""


@pytest.mark.parametrize("case", of("low_node_utilization_fraction"))
def test_loads_of_which_no_pod_is_known(case: Case) -> None:
    """A node may be hot, and still nobody is evicted on a guess."""
    inputs = case["inputs"]
    nodes = []
    for node in inputs["nodes"]:
        pods = [a_case_pod(pod, Resources()) for pod in inputs["pods"] if pod["node"] == node["name"]]
        cores = node["allocatable"]["cpu_m"] / 1000 * inputs["node_fraction"][node["name"]]
        nodes.append(a_case_node(node, pods, Resources(cpu=cores, memory=0.0)))
    span = Deviation(high=Marks(cpu=inputs["target"]), low=Marks(cpu=inputs["threshold"]), floor=0)
    cluster = a_cluster(*nodes, thresholds=Thresholds(high=Marks(), low=Marks()))
    strategy = LowNodeLoad(margin=0, deviation=span)

    assert {entry.node: entry.state for entry in strategy.classify(cluster)}["n1"] == "hot"
    assert len(plan_of(strategy, cluster)) == ours(case, case["expected"]["evicted"])


@pytest.mark.parametrize("case", of("high_node_utilization"))
def test_packing_runs(case: Case) -> None:
    """Nodes are emptied as there, if they can be emptied whole; without a high mark requests alone limit."""
    inputs = case["inputs"]
    strategy = BinPack(thresholds=marks(inputs["thresholds"]), number_of_nodes=inputs["number_of_nodes"])
    cluster = a_case_fleet(inputs, Thresholds(high=Marks(), low=Marks()))

    moves = plan_of(strategy, cluster)

    assert len(moves) == ours(case, case["expected"]["evicted"])


# Parts


@pytest.mark.parametrize("case", of("low_node_load.anomaly"))
def test_evaluations_in_a_row(case: Case) -> None:
    """What counts as abnormal after each mark."""
    inputs, expected = case["inputs"], case["expected"]
    needed = inputs.get("consecutive_abnormalities") or inputs["to_anomaly_when_consecutive_abnormal_at_least"]
    counts: AbnormalCounts = {}
    states = []
    for place, mark in enumerate(inputs["marks"]):
        at = NOW + 120.0 * place
        counts = counted(
            counts, [NodeObservation(node="a", abnormal=mark == "abnormal", sampled_at=at)], now=at, interval=120
        )
        states.append("anomaly" if "a" in abnormal_nodes(counts, needed) else "ok")

    assert states == ours(case, expected.get("states", ["anomaly"]))


@pytest.mark.parametrize("case", of("low_node_load.reason"))
def test_reasons_read_as_people_know_them(case: Case) -> None:
    """Koordinator's words without its scope ("node cpu usage"), as its users see them in Events."""
    inputs = case["inputs"]
    load = {UNITS[unit]: inputs["usage"][unit] / inputs["allocatable"][unit] for unit in ("cpu_m", "memory_b")}
    high = {UNITS[name]: value / 100 for name, value in inputs["high_percent"].items()}

    told = case["expected"]["text"].replace("node cpu", "cpu").replace("node memory", "memory")
    assert excess_text(load, high) == told
    assert excess_text(load, high, "prod") == told.replace("cpu usage", "prod cpu usage").replace(
        "memory usage", "prod memory usage"
    )


def a_used_node(name: str, usage: dict[str, float], allocatable: dict[str, float]) -> ClusterNode:
    """As many pods as it says, none of which uses anything by itself."""
    pods = [FitPod(uid=f"{name}-{i}", namespace="shop", name=f"{name}-{i}") for i in range(int(usage.get("pods", 0)))]
    fit = FitNode(name=name, allocatable=requests(allocatable), pods=pods)
    return a_node(name, base=resources(allocatable), usage=dict.fromkeys(WINDOWS, resources(usage)), fit=fit)


@pytest.mark.parametrize("case", of("low_node_load.percent", "usage_percent"))
def test_loads_in_percent(case: Case) -> None:
    """Of what the node allocates; they floor for show, we do not round."""
    inputs, expected = case["inputs"], case["expected"]
    told = expected.get("percent_floor") or expected["percent"]
    node = a_used_node("a", inputs["usage"], inputs.get("allocatable") or inputs["capacity"])
    loads = dict(zip(MEASURED, (amounts([node], "5m", projected=False) / bases([node]))[0].tolist(), strict=True))

    for name, percent in told.items():
        load = loads[UNITS[name]]
        assert (None if math.isnan(load) else int(100 * load)) == ours(case, percent)


def hottest_first(strategy: LowNodeLoad, nodes: list[ClusterNode]) -> list[str]:
    """The order in which hot nodes are asked to give pods away; all of them are."""
    cluster = a_cluster(*nodes, thresholds=Thresholds(high=Marks(cpu=0, memory=0, pods=0), low=Marks()))
    closed = [msgspec.structs.replace(node, source_refusal="asked") for node in cluster.nodes]
    cluster = msgspec.structs.replace(cluster, nodes=closed)
    strategy = msgspec.structs.replace(strategy, number_of_nodes=-1)
    return [entry.node for entry in strategy.plan(cluster, names(cluster)).refused]


@pytest.mark.parametrize("case", of("low_node_load.node_sort"))
def test_the_weighted_order_of_nodes(case: Case) -> None:
    """The weighted mean of the shares decides, the number of pods among them."""
    inputs = case["inputs"]
    nodes = [a_used_node(node["name"], node, inputs["allocatable"]) for node in inputs["nodes"]]
    weights = Weights(**inputs["weights"])

    assert hottest_first(LowNodeLoad(weights=weights), nodes) == case["expected"]["descending"]
    assert emptiest_first(nodes) == case["expected"]["ascending"]


def emptiest_first(nodes: list[ClusterNode]) -> list[str]:
    """The order in which sparse nodes are asked to be emptied; all of them are."""
    closed = [msgspec.structs.replace(node, source_refusal="asked") for node in nodes]
    cluster = a_cluster(*closed)
    plan = BinPack(thresholds=Marks(cpu=100, memory=100, pods=100)).plan(cluster, names(cluster))
    return [entry.node for entry in plan.refused]


@pytest.mark.parametrize("case", of("sort_nodes_by_usage"))
def test_the_order_of_nodes_by_memory(case: Case) -> None:
    """They add bytes to cores, so memory decides: as `memoryThenCpu` says openly."""
    inputs = case["inputs"]
    whole = {"cpu_m": 32_000, "memory": 64 * 2**30, "pods": 110}
    nodes = [a_used_node(name, usage, whole) for name, usage in inputs["usage"].items()]

    found = (
        emptiest_first(nodes) if inputs["ascending"] else hottest_first(LowNodeLoad(node_order="memoryThenCpu"), nodes)
    )

    assert found == case["expected"]["order"]


@pytest.mark.parametrize("case", of("low_node_load.pod_sort"))
def test_the_pod_that_covers_the_excess_leaves_first(case: Case) -> None:
    """Only resources that are over count; the pod that just covers the excess comes before a far bigger one."""
    inputs = case["inputs"]
    excess = inputs.get("excess") or {
        unit: inputs["node_usage"][unit] - inputs["node_high"][unit] for unit in ("cpu_m", "memory_b")
    }
    pods = [a_pod(pod["name"], cpu=pod["cpu_m"], memory=pod["memory_b"]) for pod in inputs["pods"]]

    ordered = in_order(
        pods,
        base=Resources(cpu=1.0, memory=1.0),
        excess={"cpu": excess["cpu_m"], "memory": excess["memory_b"]},
        weights=inputs["weights"],
    )

    assert [pod.name for pod in ordered] == case["expected"]["evict_order"]


@pytest.mark.parametrize("case", of("low_node_load.pod_sort_keys"))
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
            fit=FitPod(
                uid=pod["name"],
                namespace="shop",
                name=pod["name"],
                labels={QOS_LABEL: pod["koord_qos_label"]} if pod["koord_qos_label"] else {},
            ),
        )
        for pod in case["inputs"]["pods"]
    ]

    ordered = iter(in_order(pods, base=Resources(cpu=1.0, memory=1.0), excess={}, weights={}))

    for group in case["expected"]["order_with_tie_groups"]:
        assert {next(ordered).name for _ in group} == set(group)


@pytest.mark.parametrize("case", of("low_node_load.target_fit"))
def test_a_target_that_would_be_too_full(case: Case) -> None:
    """It is refused, and what was asked of it leaves no trace: the reservation is not kept."""
    inputs = case["inputs"]
    source = a_node("source", [a_case_like_pod(inputs["pod_usage"])])
    usage, high = resources(inputs["target_usage"]), resources(inputs["target_high"])
    target = a_node("target", base=Resources(cpu=100.0, memory=10.0**12), usage=dict.fromkeys(WINDOWS, usage))
    ceiling: dict[Resource, float] = {"cpu": (high.cpu or 0) / 100.0, "memory": (high.memory or 0) / 10.0**12}
    levels = AppliedThresholds(hot=ceiling, ceiling=ceiling, idle={}, aim=ceiling)
    cluster = a_cluster(source, target)
    projection = Projection(cluster, "5m")
    before = projection.load(target)

    targets = target_nodes(cluster.nodes, projection, levels, target_threshold=1.0)
    found = least_loaded_target(source.pods[0], source, targets, projection, hot=["cpu"], weights={"cpu": 1.0})

    assert (found.target is not None) == case["expected"]["fits"]
    assert projection.load(target) == before
    assert PlanDraft(cluster, WINDOWS).room == UNLIMITED.per_evaluation


def a_case_like_pod(usage: dict[str, float]) -> MovablePod:
    return a_pod("p", usage=resources(usage))


@pytest.mark.parametrize("case", of("classify_deviation"))
def test_deviation_marks(case: Case) -> None:
    """Marks follow the mean; whoever is beyond them is hot or idle."""
    inputs, expected = case["inputs"], case["expected"]
    span = Deviation(high=Marks(cpu=inputs["high_span"]), low=Marks(cpu=inputs["low_span"]), floor=0)
    nodes = [
        a_node(name, usage=dict.fromkeys(WINDOWS, Resources(cpu=percent / 10, memory=0.0)))
        for name, percent in inputs["percent"].items()
    ]
    found = {entry.node: entry.state for entry in LowNodeLoad(deviation=span).classify(a_cluster(*nodes))}

    assert [name for name, state in found.items() if state == "idle"] == expected["under"]
    assert [name for name, state in found.items() if state == "hot"] == expected["over"]
