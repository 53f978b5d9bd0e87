"""The objects that a move depends on."""

from equipoise.contracts.kubernetes import objects
from equipoise.descheduler.shell.cluster_watch import without_preferences

ONE_ZONE = objects.NodeSelector()


def test_preferences_of_pods_are_not_kept() -> None:
    """They do not decide whether a pod fits. Requirements remain."""
    preferred = objects.PreferredNodes(weight=50)
    both = objects.Affinity(node_affinity=objects.NodeAffinity(required=ONE_ZONE, preferred=[preferred]))
    required = objects.Affinity(node_affinity=objects.NodeAffinity(required=ONE_ZONE))

    assert a_pod(required) == without_preferences(a_pod(both))


def a_pod(affinity: objects.Affinity) -> objects.Pod:
    return objects.Pod(spec=objects.PodSpec(priority=7, affinity=affinity))
