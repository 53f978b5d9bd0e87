"""Objects of the API server become the nodes, workloads and rules of a trace."""

import pytest
from scheduling.pods import a_node, a_pod

from equipoise.contracts.kubernetes.objects import Affinity, LabelSelector, Pod, PodAffinity, PodAffinityTerm
from equipoise.lab.record.inventory import inventory, repels_itself

WEB = {"app": "web"}


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
