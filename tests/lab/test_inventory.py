"""Objects of the API server become the nodes, workloads and rules of a trace."""

from collections.abc import Sequence
from typing import Any

import pytest
from scheduling.pods import a_node, a_pod

from equipoise.contracts.kubernetes.labels import ZONE
from equipoise.contracts.kubernetes.objects import (
    Affinity,
    LabelSelector,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    SelectorRequirement,
    TopologySpreadConstraint,
)
from equipoise.lab.model.trace import TraceSpreadConstraint
from equipoise.lab.record.inventory import inventory, repels_itself
from equipoise.scheduling.model.pod_info import PodInfo

WEB = {"app": "web"}
HASHED = {**WEB, "pod-template-hash": "abc"}


def recorded(pod: Pod) -> object:
    """Priority and preemption policy of the workload of a pod on a node."""
    (workload,) = inventory([a_node("node-1")], [pod], {"default/web": ("default", "Pod", "web")}).workloads
    return workload.priority, workload.preemption_policy


def test_priorities_are_recorded() -> None:
    """For preemption in replays."""
    plain = a_pod("web", node_name="node-1")
    important = a_pod("web", node_name="node-1", priority=1_000, preemption_policy="Never")

    assert recorded(plain.pod) == (0, "PreemptLowerPriority")
    assert recorded(important.pod) == (1_000, "Never")


def test_zones_and_regions_are_recorded() -> None:
    """Also those of old labels; a node may have neither."""
    labels = {"topology.kubernetes.io/zone": "a", "failure-domain.beta.kubernetes.io/region": "east"}
    nodes = [a_node("node-1", labels=labels), a_node("node-2")]

    assert [("a", "east"), ("", "")] == [(node.zone, node.region) for node in inventory(nodes, [], {}).nodes]


def recorded_spread(*others: PodInfo, **fields: Any) -> tuple[Sequence[TraceSpreadConstraint], Sequence[str]]:
    """Of the constraints of a pod `web` beside others, with the notes."""
    rule = TopologySpreadConstraint(
        **({"topology_key": ZONE, "label_selector": LabelSelector(match_labels=WEB), "max_skew": 2} | fields)
    )
    web = a_pod("web", labels=HASHED, node_name="node-1", topology_spread_constraints=[rule])
    pods = [each.pod for each in (web, *others)]
    owners = {f"{pod.metadata.namespace}/{pod.metadata.name}": ("default", "Pod", pod.metadata.name) for pod in pods}
    found = inventory([a_node("node-1")], pods, owners)
    return next(each.topology_spread for each in found.workloads if each.name == "web"), found.notes


MERGED = LabelSelector(
    match_labels=WEB, match_expressions=[SelectorRequirement(key="pod-template-hash", operator="In", values=["abc"])]
)


@pytest.mark.parametrize(
    ("fields", "recorded"),
    [
        ({}, {}),
        ({"match_label_keys": ["pod-template-hash"]}, {"match_label_keys": ["pod-template-hash"]}),
        (
            {"match_label_keys": ["pod-template-hash"], "label_selector": MERGED},
            {"match_label_keys": ["pod-template-hash"]},
        ),
        ({"when_unsatisfiable": "ScheduleAnyway"}, {"when_unsatisfiable": "ScheduleAnyway"}),
    ],
)
def test_constraints_that_spread_the_pods_of_a_workload_are_recorded(
    fields: dict[str, Any], recorded: dict[str, Any]
) -> None:
    """Without the selector: the pods of a trace have other labels."""
    assert recorded_spread(**fields) == ((TraceSpreadConstraint(topology_key=ZONE, max_skew=2, **recorded),), ())


@pytest.mark.parametrize(
    ("other", "fields"),
    [
        ("web-2", {}),
        ("", {"topology_key": "rack"}),
        ("", {"label_selector": None}),
        ("", {"label_selector": LabelSelector(match_labels={"app": "other"})}),
        ("", {"match_label_keys": ["version"]}),
    ],
)
def test_other_topology_spread_is_counted_in_a_note(other: str, fields: dict[str, Any]) -> None:
    others = [a_pod(other, labels=WEB, node_name="node-1")] if other else []
    spread, notes = recorded_spread(*others, **fields)

    assert spread == ()
    assert [note for note in notes if "topology spread with pods of other workloads or other labels (1)" in note]


@pytest.mark.parametrize(
    ("key", "selected", "repels"),
    [
        ("kubernetes.io/hostname", WEB, True),
        ("kubernetes.io/hostname", {"app": "other"}, False),
        ("topology.kubernetes.io/zone", WEB, False),
    ],
)
def test_pods_that_exclude_their_own_kind_from_a_node(key: str, selected: dict[str, str], repels: bool) -> None:
    """A trace has no rules about zones."""
    term = PodAffinityTerm(topology_key=key, label_selector=LabelSelector(match_labels=selected))
    pod = a_pod(labels=WEB, affinity=Affinity(pod_anti_affinity=PodAffinity(required=[term]))).pod

    assert repels_itself(pod) is repels


@pytest.mark.parametrize(("names", "repels"), [([], True), (["other"], True), (["default"], True)])
def test_a_selector_of_namespaces_is_taken_to_select_the_own_one(names: list[str], repels: bool) -> None:
    """Its labels are not recorded."""
    selector = LabelSelector(match_labels={"team": "a"})
    term = PodAffinityTerm(
        topology_key="kubernetes.io/hostname",
        label_selector=LabelSelector(match_labels=WEB),
        namespaces=names,
        namespace_selector=selector,
    )
    pod = a_pod(labels=WEB, affinity=Affinity(pod_anti_affinity=PodAffinity(required=[term]))).pod

    assert repels_itself(pod) is repels
