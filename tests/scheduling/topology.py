"""Clusters whose nodes have zones and racks, and the results of a plugin for their nodes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from scheduling.pods import a_framework, a_node, a_pod

from equipoise.contracts.kubernetes.objects.metadata import LabelSelector, SelectorRequirement
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.kubernetes.objects.pod import Affinity, PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm
from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.diagnosis import FilterDiagnosis
from equipoise.scheduling.framework.status import Code
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot

ZONE, RACK, HOST = "topology.kubernetes.io/zone", "rack", "kubernetes.io/hostname"


def a_cluster(*nodes: Node, pods: Sequence[PodInfo] = ()) -> ClusterSnapshot:
    return ClusterSnapshot(nodes, pods)


def in_zone(name: str, zone: str | None, **labels: str) -> Node:
    return a_node(name, labels={**({} if zone is None else {ZONE: zone}), **labels})


def running(name: str, node: str, app: str = "web", **fields: Any) -> PodInfo:
    return a_pod(name, labels=fields.pop("labels", {"app": app}), node_name=node, **fields)


def app(name: str) -> LabelSelector:
    return LabelSelector(match_labels={"app": name})


def having(key: str, operator: str = "Exists", *values: str) -> LabelSelector:
    return LabelSelector(match_expressions=[SelectorRequirement(key=key, operator=operator, values=list(values))])


def term(selector: LabelSelector | None, key: str = ZONE, **fields: Any) -> PodAffinityTerm:
    return PodAffinityTerm(label_selector=selector, topology_key=key, **fields)


def near(*terms: PodAffinityTerm, preferred: Mapping[int, PodAffinityTerm] | None = None) -> Affinity:
    return Affinity(pod_affinity=_terms(terms, preferred))


def apart(*terms: PodAffinityTerm, preferred: Mapping[int, PodAffinityTerm] | None = None) -> Affinity:
    return Affinity(pod_anti_affinity=_terms(terms, preferred))


def _terms(required: Sequence[PodAffinityTerm], preferred: Mapping[int, PodAffinityTerm] | None) -> PodAffinity:
    """`preferred`: by weight."""
    weighted = [
        WeightedPodAffinityTerm(weight=weight, pod_affinity_term=each) for weight, each in (preferred or {}).items()
    ]
    return PodAffinity(required=list(required), preferred=weighted)


Refusals = dict[str, tuple[Code, str]]
"""Code and reason by name of the node."""


def prepared(plugin: Any, pod: PodInfo, snapshot: ClusterSnapshot) -> CycleState:
    state = CycleState()
    a_framework(plugin).pre_filter(state, pod, snapshot)
    return state


def refused(plugin: Any, pod: PodInfo, snapshot: ClusterSnapshot, state: CycleState | None = None) -> Refusals:
    """`state`: after pre_filter and changes; None: pre_filter is called."""
    state = prepared(plugin, pod, snapshot) if state is None else state
    diagnosis: FilterDiagnosis = a_framework(plugin).filter(state, pod, snapshot, snapshot.rows)
    found = {}
    for row, status in diagnosis.by_node().items():
        assert len(status.reasons) == 1
        found[snapshot.name(row)] = (status.code, status.reasons[0])
    return found


def raw_and_normalized(
    plugin: Any, pod: PodInfo, snapshot: ClusterSnapshot, *names: str
) -> tuple[dict[str, int], dict[str, int]] | None:
    """By name, of these nodes or of all; None: the plugin skips the pod."""
    names = names or tuple(snapshot.name(row) for row in snapshot.rows.tolist())
    rows = np.array([snapshot.row(name) for name in names], dtype=np.intp)
    state = CycleState()
    scores = a_framework(plugin).score(state, pod, snapshot, rows)
    if plugin.name in state.skipped_scores:
        return None
    found = (dict(zip(names, each[plugin.name].tolist(), strict=True)) for each in (scores.raw, scores.weighted))
    raw, normalized = found
    return raw, normalized


def scores(plugin: Any, pod: PodInfo, snapshot: ClusterSnapshot, *names: str) -> dict[str, int] | None:
    """As `raw_and_normalized`, normalized."""
    found = raw_and_normalized(plugin, pod, snapshot, *names)
    return None if found is None else found[1]


# Generated clusters

NODES = ("node-1", "node-2", "node-3", "node-4")
APPS = ("web", "db")

zones = st.sampled_from([None, "a", "b", "c"])
nodes = st.tuples(*[st.builds(in_zone, st.just(name), zones) for name in NODES]) | st.tuples(
    *[st.builds(in_zone, st.just(name), zones, rack=st.sampled_from(["1", "2"])) for name in NODES]
)
selectors = st.sampled_from(
    [
        None,
        LabelSelector(),
        app("web"),
        app("db"),
        having("app"),
        having("app", "NotIn", "db"),
        having("app", "In", *APPS),
    ]
)
keys = st.sampled_from([ZONE, RACK, HOST])
affinity_terms = st.builds(
    PodAffinityTerm,
    label_selector=selectors,
    topology_key=keys,
    namespaces=st.sampled_from([[], ["default"], ["shop", "default"]]),
    namespace_selector=st.sampled_from([None, None, LabelSelector(), having("team", "In", "blue")]),
)
weighted_terms = st.builds(WeightedPodAffinityTerm, weight=st.integers(1, 100), pod_affinity_term=affinity_terms)
pod_affinities = st.builds(
    PodAffinity, required=st.lists(affinity_terms, max_size=2), preferred=st.lists(weighted_terms, max_size=2)
)
affinities = (
    st.none()
    | st.builds(Affinity, pod_affinity=pod_affinities, pod_anti_affinity=st.none())
    | st.builds(Affinity, pod_affinity=st.none() | pod_affinities, pod_anti_affinity=pod_affinities)
)


@st.composite
def pods(draw: st.DrawFn, name: str = "new", node: str = "", **spec: Any) -> PodInfo:
    return a_pod(
        name,
        labels=draw(st.sampled_from([{}, {"app": "web"}, {"app": "db"}, {"app": "web", "tier": "front"}])),
        namespace=draw(st.sampled_from(["default", "default", "shop"])),
        terminating=draw(st.booleans()) if node else False,
        node_name=node,
        **({"affinity": draw(affinities)} | {key: draw(value) for key, value in spec.items()}),
    )


@st.composite
def many_pods(draw: st.DrawFn) -> list[PodInfo]:
    places = draw(st.lists(st.sampled_from(NODES), max_size=6))
    return [draw(pods(f"pod-{number}", node)) for number, node in enumerate(places)]
