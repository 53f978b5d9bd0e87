"""The objects that a move depends on."""

from equipoise.contracts.kubernetes import objects
from equipoise.descheduler.shell.cluster_watch import nodes_of_volumes, without_preferences

ONE_ZONE = objects.NodeSelector()


def a_claim(name: str, volume: str) -> objects.PersistentVolumeClaim:
    return objects.PersistentVolumeClaim(
        metadata=objects.ObjectMeta(name=name, namespace="shop"),
        spec=objects.PersistentVolumeClaimSpec(volume_name=volume),
    )


def a_volume(name: str, nodes: objects.NodeSelector | None) -> objects.PersistentVolume:
    affinity = None if nodes is None else objects.VolumeNodeAffinity(required=nodes)
    return objects.PersistentVolume(
        metadata=objects.ObjectMeta(name=name), spec=objects.PersistentVolumeSpec(node_affinity=affinity)
    )


def test_the_nodes_of_a_volume_are_those_of_its_claim() -> None:
    """None: all nodes. A claim without a volume is absent: its pod cannot be moved."""
    claims = [a_claim("local", "pv-1"), a_claim("shared", "pv-2"), a_claim("pending", ""), a_claim("lost", "pv-9")]
    volumes = [a_volume("pv-1", ONE_ZONE), a_volume("pv-2", None)]

    assert nodes_of_volumes(claims, volumes) == {("shop", "local"): ONE_ZONE, ("shop", "shared"): None}


def test_preferences_of_pods_are_not_kept() -> None:
    """They do not decide whether a pod fits. Requirements remain."""
    preferred = objects.PreferredNodes(weight=50)
    both = objects.Affinity(node_affinity=objects.NodeAffinity(required=ONE_ZONE, preferred=[preferred]))
    required = objects.Affinity(node_affinity=objects.NodeAffinity(required=ONE_ZONE))

    assert a_pod(required) == without_preferences(a_pod(both))


def a_pod(affinity: objects.Affinity) -> objects.Pod:
    return objects.Pod(spec=objects.PodSpec(priority=7, affinity=affinity))
