"""kube-scheduler's topology spread and inter-pod affinity: the scheduling library."""

from collections.abc import Mapping, Sequence

import numpy as np
from peers.cases import Case, Inputs, peer_cases
from scheduling.pods import a_pod

from equipoise.contracts.kubernetes.objects.metadata import LabelSelector, ObjectMeta, SelectorRequirement
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.kubernetes.objects.pod import (
    Affinity,
    PodAffinity,
    PodAffinityTerm,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.status import Code
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.plugins.pods.inter_pod_affinity import InterPodAffinity
from equipoise.scheduling.plugins.pods.pod_topology_spread import PodTopologySpread


def the_nodes(inputs: Inputs) -> list[Node]:
    return [Node(metadata=ObjectMeta(name=node["name"], labels=node["labels"])) for node in inputs["nodes"]]


def the_scores(
    plugin: PodTopologySpread | InterPodAffinity, pod: PodInfo, snapshot: ClusterSnapshot, names: Sequence[str]
) -> list[int] | None:
    """Of these nodes, after normalize; None: the plugin skips the pod."""
    rows = np.array([snapshot.row(name) for name in names], dtype=np.intp)
    state = CycleState()
    if plugin.pre_score(state, pod, snapshot, rows).code == Code.SKIP:
        return None
    scores: list[int] = plugin.normalize(state, pod, snapshot, rows, plugin.score(state, pod, snapshot, rows)).tolist()
    return scores


@peer_cases("topology_spread_score")
def test_spread_scores(case: Case) -> None:
    """ScheduleAnyway constraints: the fewer pods of its kind the domains of a node have, the better."""
    inputs = case.inputs
    running = [
        a_pod(f"{node['name']}-{number}", labels=dict.fromkeys(labels, ""), node_name=node["name"])
        for node in inputs["nodes"]
        for number, labels in enumerate(node["pods"])
    ]
    constraints = [
        TopologySpreadConstraint(
            max_skew=each["max_skew"],
            topology_key=each["key"],
            when_unsatisfiable="ScheduleAnyway",
            label_selector=LabelSelector(
                match_expressions=[SelectorRequirement(key=each["selector_label"], operator="Exists")]
            ),
        )
        for each in inputs["constraints"]
    ]
    pod = a_pod("new", labels={"foo": ""}, topology_spread_constraints=constraints)
    candidates = [node["name"] for node in inputs["nodes"] if node["candidate"]]

    plugin = PodTopologySpread(default_selector=lambda pod: None)

    case.check(scores=the_scores(plugin, pod, ClusterSnapshot(the_nodes(inputs), running), candidates))


def preferring(terms: Sequence[Inputs]) -> Affinity | None:
    assert all(term["kind"] == "affinity" for term in terms)
    preferred = [
        WeightedPodAffinityTerm(
            weight=term["weight"],
            pod_affinity_term=PodAffinityTerm(
                label_selector=LabelSelector(
                    match_expressions=[
                        SelectorRequirement(key=key, operator=operator, values=values)
                        for key, operator, values in term["selector"]
                    ]
                ),
                topology_key=term["topology_key"],
            ),
        )
        for term in terms
    ]
    return Affinity(pod_affinity=PodAffinity(preferred=preferred)) if preferred else None


def a_pod_with(name: str, labels: Mapping[str, str], terms: Sequence[Inputs], node: str = "") -> PodInfo:
    return a_pod(name, labels=labels, affinity=preferring(terms), node_name=node)


@peer_cases("inter_pod_affinity_score")
def test_affinity_scores(case: Case) -> None:
    """Preferred terms of the pod and of those that run, summed over the domains of a node."""
    inputs = case.inputs
    running = [
        a_pod_with(f"{node['name']}-{number}", pod["labels"], pod["terms"], node["name"])
        for node in inputs["nodes"]
        for number, pod in enumerate(node["pods"])
    ]
    plugin = InterPodAffinity(inputs["hard_pod_affinity_weight"])
    pod = a_pod_with("new", inputs["pod_labels"], inputs["pod_terms"])
    names = [node["name"] for node in inputs["nodes"]]

    scores = the_scores(plugin, pod, ClusterSnapshot(the_nodes(inputs), running), names)

    case.check(prescore="skip" if scores is None else "scored", scores=scores)
