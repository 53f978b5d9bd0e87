"""VolumeZone: labels of volumes and of nodes."""

import pytest
from scheduling.pods import a_node, a_pod
from scheduling.storage import ZONE, a_claim, a_class, a_storage, a_volume, refusals, uses

from equipoise.contracts.kubernetes.objects.pod import Volume
from equipoise.contracts.kubernetes.objects.storage import PersistentVolumeClaim
from equipoise.scheduling.framework.status import Code
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.plugins.volumes.volume_zone import REASON, VolumeZone

BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"

CLUSTER = ClusterSnapshot(
    [
        a_node("in-a", labels={ZONE: "a"}),
        a_node("in-b", labels={ZONE: "b"}),
        a_node("beta-a", labels={BETA_ZONE: "a"}),
        a_node("region", labels={"topology.kubernetes.io/region": "r"}),
        a_node("none"),
    ]
)


def refused(labels: dict[str, str]) -> set[str]:
    """Nodes, for a volume with these labels."""
    storage = a_storage(claims=[a_claim(volume="pv")], volumes=[a_volume("pv", labels=labels)])
    found = refusals(VolumeZone(storage), a_pod(volumes=uses("data")), CLUSTER)
    assert all((each.code, each.reasons) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (REASON,)) for each in found.values())
    return set(found)


def test_nodes_of_other_zones_are_refused() -> None:
    """And those with labels of a region only; a node without any such label is allowed."""
    assert refused({ZONE: "a"}) == {"in-b", "beta-a", "region"}


def test_the_beta_label_of_a_volume_is_that_of_present_nodes() -> None:
    """A node has one of the two labels."""
    assert refused({BETA_ZONE: "a"}) == {"in-b", "region"}


def test_a_volume_may_be_in_several_zones() -> None:
    """Two underscores separate them; a label with an empty zone is ignored."""
    assert refused({ZONE: "a__b"}) == {"beta-a", "region"}
    assert refused({ZONE: "a__"}) == set()


def test_volumes_without_labels_are_used_everywhere() -> None:
    """The filter is skipped."""
    assert refused({}) == set()


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        (None, 'persistentvolumeclaim "data" not found'),
        (a_claim(volume="gone"), 'persistentvolume "gone" not found'),
        (a_claim(), "PersistentVolumeClaim had no pv name and storageClass name"),
        (a_claim(storage_class="none"), 'storageclass.storage.k8s.io "none" not found'),
        (a_claim(storage_class="now"), "PersistentVolume had no name"),
        (a_claim(storage_class="late"), None),
    ],
    ids=["no claim", "no volume", "no class", "unknown class", "not bound yet", "bound later"],
)
def test_a_claim_without_a_volume(claim: PersistentVolumeClaim | None, reason: str | None) -> None:
    """It refuses the pod, unless its class waits for the first consumer."""
    classes = [a_class("now", waits=False), a_class("late")]
    storage = a_storage(claims=[claim] if claim else [], classes=classes)

    found = refusals(VolumeZone(storage), a_pod(volumes=uses("data")), CLUSTER)

    assert {each.reasons for each in found.values()} == ({(reason,)} if reason else set())
    assert all(each.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE for each in found.values())


def test_ephemeral_volumes_are_not_checked() -> None:
    """Their claims are those of VolumeBinding."""
    assert refusals(VolumeZone(a_storage()), a_pod(volumes=[Volume(name="x", ephemeral={})]), CLUSTER) == {}
