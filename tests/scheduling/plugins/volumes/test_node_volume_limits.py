"""NodeVolumeLimits: how many volumes of a driver a node can attach."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kube_objects import owned_by
from scheduling.pods import a_framework, a_node, a_pod
from scheduling.storage import a_claim, a_class, a_csi_node, a_storage, a_volume, refusals, uses

from equipoise.contracts.kubernetes.objects.metadata import OwnerReference
from equipoise.contracts.kubernetes.objects.pod import Volume
from equipoise.contracts.kubernetes.objects.storage import (
    AttachmentSource,
    CSINode,
    PersistentVolumeClaim,
    VolumeAttachment,
    VolumeAttachmentSpec,
)
from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.plugin_calls import PluginFailed
from equipoise.scheduling.framework.status import Code
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.model.volumes import Volumes
from equipoise.scheduling.plugins.volumes.node_volume_limits import REASON, NodeVolumeLimits

DRIVER = "disk.example"


def a_disks(*names: str, csi_nodes: list[CSINode] | None = None, attached: tuple[str, ...] = ()) -> Volumes:
    """A bound claim and a volume of DRIVER for each name. `attached`: volumes that node a has attached."""
    storage = a_storage(
        claims=[a_claim(name, volume=f"pv-{name}") for name in names],
        volumes=[a_volume(f"pv-{name}", driver=DRIVER) for name in names],
        csi_nodes=[a_csi_node("a", disk_example=2)] if csi_nodes is None else csi_nodes,
    )
    specs = [
        VolumeAttachmentSpec(
            attacher=DRIVER, node_name="a", source=AttachmentSource(persistent_volume_name=f"pv-{name}")
        )
        for name in attached
    ]
    return Volumes(
        claims=storage.claims,
        volumes=storage.volumes,
        csi_nodes=storage.csi_nodes,
        attachments={str(index): VolumeAttachment(spec=spec) for index, spec in enumerate(specs)},
    )


def a_cluster(*pods: PodInfo) -> ClusterSnapshot:
    """Two nodes, with these pods on the first."""
    snapshot = ClusterSnapshot([a_node("a"), a_node("b")])
    for pod in pods:
        snapshot.add_pod(pod, 0)
    return snapshot


def test_a_node_with_as_many_volumes_as_it_can_attach_is_refused() -> None:
    """Preemption may help. A node without a CSINode has no limit."""
    storage = a_disks("x", "y", "z")
    snapshot = a_cluster(a_pod("one", volumes=uses("x")), a_pod("two", volumes=uses("y")))

    found = refusals(NodeVolumeLimits(storage), a_pod(volumes=uses("z")), snapshot)

    assert {name: (each.code, each.reasons) for name, each in found.items()} == {"a": (Code.UNSCHEDULABLE, (REASON,))}


def test_a_volume_of_several_pods_counts_once() -> None:
    """Those of the pod itself, and those of the pods on the node."""
    storage = a_disks("x", "y")
    snapshot = a_cluster(a_pod("one", volumes=uses("x")), a_pod("two", volumes=uses("x")))

    assert refusals(NodeVolumeLimits(storage), a_pod(volumes=uses("x", "y", "y")), snapshot) == {}


def test_a_volume_that_is_still_attached_counts() -> None:
    """Although its pod has gone; not twice while its pod is there."""
    snapshot = a_cluster(a_pod("one", volumes=uses("x")))
    pod = a_pod(volumes=uses("z"))

    assert refusals(NodeVolumeLimits(a_disks("x", "y", "z", attached=("x",))), pod, snapshot) == {}
    assert refusals(NodeVolumeLimits(a_disks("x", "y", "z", attached=("y",))), pod, snapshot).keys() == {"a"}


@pytest.mark.parametrize(
    "nodes",
    [[], [a_csi_node("a", disk_example=None)], [a_csi_node("a", other_example=0)]],
    ids=["none", "null", "other"],
)
def test_a_driver_without_a_limit_is_not_limited(nodes: list[CSINode]) -> None:
    """No CSINode, no number, or that of another driver."""
    names = [f"volume-{index}" for index in range(9)]

    assert refusals(NodeVolumeLimits(a_disks(*names, csi_nodes=nodes)), a_pod(volumes=uses(*names)), a_cluster()) == {}


@pytest.mark.parametrize(
    ("provisioner", "driver"),
    [("disk.example", "disk_example"), ("kubernetes.io/aws-ebs", "ebs_csi_aws_com")],
    ids=["driver", "former provisioner"],
)
def test_a_claim_that_is_bound_later_counts_for_the_driver_of_its_class(provisioner: str, driver: str) -> None:
    """Two pods that use it use one volume."""
    storage = a_storage(
        claims=[a_claim("x", storage_class="late"), a_claim("y", storage_class="late")],
        classes=[a_class("late", provisioner=provisioner)],
        csi_nodes=[a_csi_node("a", **{driver: 1})],
    )
    snapshot = a_cluster(a_pod("one", volumes=uses("x")))

    assert refusals(NodeVolumeLimits(storage), a_pod(volumes=uses("x")), snapshot) == {}
    assert refusals(NodeVolumeLimits(storage), a_pod(volumes=uses("y")), snapshot).keys() == {"a"}


def test_a_claim_that_does_not_exist_refuses_all_nodes() -> None:
    """For the pod that is scheduled; claims of running pods are left out."""
    storage = a_disks("x")
    snapshot = a_cluster(a_pod("one", volumes=uses("gone")))

    assert refusals(NodeVolumeLimits(storage), a_pod(volumes=uses("x")), snapshot) == {}
    found = refusals(NodeVolumeLimits(storage), a_pod(volumes=uses("x", "none")), snapshot)
    assert found.keys() == {"a", "b"}
    assert found["b"].code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert found["b"].reasons == ('looking up PVC default/none: persistentvolumeclaim "none" not found',)


def an_ephemeral(owner: list[OwnerReference]) -> PersistentVolumeClaim:
    return a_claim("pod-1-x", volume="pv-x", metadata={"owner_references": owner})


def test_the_claim_of_an_ephemeral_volume_counts() -> None:
    """It is that of the pod, or the attempt fails."""
    pod = a_pod(volumes=[Volume(name="x", ephemeral={})])
    mine = [OwnerReference(kind="Pod", name="pod-1", uid=pod.uid, controller=True)]
    nodes = [a_csi_node("a", disk_example=0)]
    volumes = [a_volume("pv-x", driver=DRIVER)]

    storage = a_storage(claims=[an_ephemeral(mine)], volumes=volumes, csi_nodes=nodes)
    assert refusals(NodeVolumeLimits(storage), pod, a_cluster()).keys() == {"a"}
    storage = a_storage(claims=[an_ephemeral(owned_by("Pod", "other"))], volumes=volumes, csi_nodes=nodes)
    with pytest.raises(PluginFailed, match="PVC default/pod-1-x was not created for pod default/pod-1"):
        refusals(NodeVolumeLimits(storage), pod, a_cluster())


def test_a_pod_without_claims_skips_the_filter() -> None:
    """As kube-scheduler does for preemption."""
    framework, state = a_framework(NodeVolumeLimits(a_storage())), CycleState()
    framework.pre_filter(state, a_pod(), a_cluster())

    assert state.skipped_filters == {"NodeVolumeLimits"}


names = st.lists(st.sampled_from("uvwxyz"), max_size=4)


@given(running=st.lists(names, max_size=4), pod=names, limit=st.integers(0, 6))
def test_a_node_is_refused_if_the_volumes_of_all_pods_exceed_the_limit(
    running: list[list[str]], pod: list[str], limit: int
) -> None:
    """Unless the pod brings no new volume."""
    storage = a_disks(*"uvwxyz", csi_nodes=[a_csi_node("a", disk_example=limit)])
    snapshot = a_cluster(*(a_pod(f"pod-{index}", volumes=uses(*each)) for index, each in enumerate(running)))

    found = refusals(NodeVolumeLimits(storage), a_pod("new", volumes=uses(*pod)), snapshot)

    before = {name for each in running for name in each}
    assert bool(found) == (bool(set(pod) - before) and len(before | set(pod)) > limit)
