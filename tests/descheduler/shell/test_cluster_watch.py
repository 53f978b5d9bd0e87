"""The objects that a move depends on."""

from equipoise.contracts.hints.policy import HINTED
from equipoise.contracts.kubernetes.labels import HOSTNAME
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta, SelectorRequirement
from equipoise.contracts.kubernetes.objects.node import NodeSelector, NodeSelectorTerm
from equipoise.contracts.kubernetes.objects.pod import Affinity, NodeAffinity, Pod, PodSpec, PreferredNodes
from equipoise.descheduler.shell.cluster_watch import without_hints

ONE_ZONE = NodeSelector()


def test_hints_of_pods_are_not_kept() -> None:
    """The pod's own preferences decide where its replacement runs. Without the annotation, all terms are its own."""
    zone, host = (
        PreferredNodes(
            weight=50,
            preference=NodeSelectorTerm(match_expressions=[SelectorRequirement(key=key, operator="In", values=["a"])]),
        )
        for key in ("zone", HOSTNAME)
    )
    both, own = (
        Affinity(node_affinity=NodeAffinity(required=ONE_ZONE, preferred=preferred))
        for preferred in ([zone, host], [zone])
    )

    assert a_pod(own, HINTED) == without_hints(a_pod(both, HINTED))
    assert a_pod(both) == without_hints(a_pod(both))


def a_pod(affinity: Affinity, *annotations: str) -> Pod:
    return Pod(
        metadata=ObjectMeta(annotations=dict.fromkeys(annotations, "")),
        spec=PodSpec(priority=7, affinity=affinity),
    )
