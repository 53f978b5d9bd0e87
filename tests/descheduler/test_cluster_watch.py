"""The objects that a move depends on."""

from equipoise.contracts.hints.policy import HINTED
from equipoise.contracts.kubernetes import objects
from equipoise.contracts.kubernetes.labels import HOSTNAME
from equipoise.descheduler.shell.cluster_watch import without_hints

ONE_ZONE = objects.NodeSelector()


def test_hints_of_pods_are_not_kept() -> None:
    """The pod's own preferences decide where its replacement runs. Without the annotation, all terms are its own."""
    zone, host = (
        objects.PreferredNodes(
            weight=50,
            preference=objects.NodeSelectorTerm(
                match_expressions=[objects.SelectorRequirement(key=key, operator="In", values=["a"])]
            ),
        )
        for key in ("zone", HOSTNAME)
    )
    both, own = (
        objects.Affinity(node_affinity=objects.NodeAffinity(required=ONE_ZONE, preferred=preferred))
        for preferred in ([zone, host], [zone])
    )

    assert a_pod(own, HINTED) == without_hints(a_pod(both, HINTED))
    assert a_pod(both) == without_hints(a_pod(both))


def a_pod(affinity: objects.Affinity, *annotations: str) -> objects.Pod:
    return objects.Pod(
        metadata=objects.ObjectMeta(annotations=dict.fromkeys(annotations, "")),
        spec=objects.PodSpec(priority=7, affinity=affinity),
    )
