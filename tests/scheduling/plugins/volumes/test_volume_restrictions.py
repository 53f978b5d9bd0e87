"""VolumeRestrictions: volumes that only one pod, or one pod of a node, may use."""

from typing import Any

import pytest
from scheduling.pods import a_framework, a_node, a_pod
from scheduling.storage import a_claim, a_storage, refusals, uses

from equipoise.contracts.kubernetes.objects.pod import BlockStore, IscsiDisk, PersistentDisk, RbdImage, Volume
from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.status import Code
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.plugins.volumes.volume_restrictions import CLAIM_IN_USE, DISK_IN_USE, VolumeRestrictions

EXCLUSIVE = a_storage(
    claims=[
        a_claim("mine", modes=["ReadWriteOncePod"]),
        a_claim("shared", modes=["ReadWriteOnce"]),
        a_claim("mine", modes=["ReadWriteOncePod"], namespace="other"),
    ]
)


def a_cluster(*pods: PodInfo) -> ClusterSnapshot:
    """Two nodes, with these pods on the first."""
    snapshot = ClusterSnapshot([a_node("a"), a_node("b")])
    for pod in pods:
        snapshot.add_pod(pod, 0)
    return snapshot


def test_an_exclusive_claim_in_use_refuses_all_nodes() -> None:
    """Preemption of its user may help."""
    snapshot = a_cluster(a_pod("user", volumes=uses("mine")))

    found = refusals(VolumeRestrictions(EXCLUSIVE), a_pod(volumes=uses("mine")), snapshot)

    assert found.keys() == {"a", "b"}
    assert all((each.code, each.reasons) == (Code.UNSCHEDULABLE, (CLAIM_IN_USE,)) for each in found.values())


def test_other_claims_can_be_shared() -> None:
    """By pods of one node, and a claim of another namespace is another claim."""
    plugin = VolumeRestrictions(EXCLUSIVE)

    assert refusals(plugin, a_pod(volumes=uses("shared")), a_cluster(a_pod("user", volumes=uses("shared")))) == {}
    assert (
        refusals(plugin, a_pod(volumes=uses("mine")), a_cluster(a_pod("x", namespace="other", volumes=uses("mine"))))
        == {}
    )


def test_a_claim_that_does_not_exist_refuses_the_pod() -> None:
    """With the words of the API server."""
    found = refusals(VolumeRestrictions(EXCLUSIVE), a_pod(volumes=uses("none")), a_cluster())

    assert found["a"].code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert found["a"].reasons == ('persistentvolumeclaim "none" not found',)


def test_the_removal_of_the_user_makes_nodes_feasible() -> None:
    """As preemption tries it; pods of other namespaces change nothing. What is added back counts again."""
    user = a_pod("user", volumes=uses("mine"))
    other = a_pod("other", namespace="other", volumes=uses("mine"))
    snapshot, pod, state = a_cluster(user, other), a_pod(volumes=uses("mine")), CycleState()
    framework = a_framework(VolumeRestrictions(EXCLUSIVE))
    framework.pre_filter(state, pod, snapshot)
    trial = state.clone()

    def feasible(after: CycleState) -> list[bool]:
        found: list[bool] = framework.filter(after, pod, snapshot, snapshot.rows).passed.tolist()
        return found

    framework.remove_pod(trial, pod, other, 0, snapshot)
    assert feasible(trial) == [False, False]
    framework.remove_pod(trial, pod, user, 0, snapshot)
    assert feasible(trial) == [True, True]
    assert feasible(state) == [False, False]
    framework.add_pod(trial, pod, user, 0, snapshot)
    assert feasible(trial) == [False, False]


DISKS: list[tuple[str, dict[str, Any], dict[str, Any], bool]] = [
    (
        "gce",
        {"gce_persistent_disk": PersistentDisk(pd_name="x")},
        {"gce_persistent_disk": PersistentDisk(pd_name="x")},
        True,
    ),
    (
        "gce other",
        {"gce_persistent_disk": PersistentDisk(pd_name="x")},
        {"gce_persistent_disk": PersistentDisk(pd_name="y")},
        False,
    ),
    (
        "gce read-only",
        {"gce_persistent_disk": PersistentDisk(pd_name="x", read_only=True)},
        {"gce_persistent_disk": PersistentDisk(pd_name="x", read_only=True)},
        False,
    ),
    (
        "gce one writes",
        {"gce_persistent_disk": PersistentDisk(pd_name="x", read_only=True)},
        {"gce_persistent_disk": PersistentDisk(pd_name="x")},
        True,
    ),
    (
        "aws",
        {"aws_elastic_block_store": BlockStore(volume_id="x")},
        {"aws_elastic_block_store": BlockStore(volume_id="x")},
        True,
    ),
    (
        "aws other",
        {"aws_elastic_block_store": BlockStore(volume_id="x")},
        {"aws_elastic_block_store": BlockStore(volume_id="y")},
        False,
    ),
    ("iscsi", {"iscsi": IscsiDisk(iqn="x")}, {"iscsi": IscsiDisk(iqn="x", read_only=True)}, True),
    (
        "iscsi read-only",
        {"iscsi": IscsiDisk(iqn="x", read_only=True)},
        {"iscsi": IscsiDisk(iqn="x", read_only=True)},
        False,
    ),
    ("rbd", {"rbd": RbdImage(monitors=["1", "2"], image="x")}, {"rbd": RbdImage(monitors=["2"], image="x")}, True),
    ("rbd monitors", {"rbd": RbdImage(monitors=["1"], image="x")}, {"rbd": RbdImage(monitors=["2"], image="x")}, False),
    (
        "rbd pool",
        {"rbd": RbdImage(monitors=["1"], image="x")},
        {"rbd": RbdImage(monitors=["1"], pool="p", image="x")},
        False,
    ),
    (
        "rbd read-only",
        {"rbd": RbdImage(monitors=["1"], image="x", read_only=True)},
        {"rbd": RbdImage(monitors=["1"], image="x", read_only=True)},
        False,
    ),
    ("different kinds", {"iscsi": IscsiDisk(iqn="x")}, {"aws_elastic_block_store": BlockStore(volume_id="x")}, False),
]


@pytest.mark.parametrize(("mine", "theirs", "conflict"), [each[1:] for each in DISKS], ids=[each[0] for each in DISKS])
def test_a_disk_is_used_once_per_node(mine: dict[str, Any], theirs: dict[str, Any], conflict: bool) -> None:
    """Unless both pods only read it. Other nodes are possible, and so is preemption."""
    snapshot = a_cluster(a_pod("user", volumes=[Volume(**theirs)]))

    found = refusals(VolumeRestrictions(a_storage()), a_pod(volumes=[Volume(**mine)]), snapshot)

    assert {name: (each.code, each.reasons) for name, each in found.items()} == (
        {"a": (Code.UNSCHEDULABLE, (DISK_IN_USE,))} if conflict else {}
    )


def test_a_node_has_one_reason() -> None:
    """The disk, where it is in use; the claim elsewhere."""
    disk = Volume(iscsi=IscsiDisk(iqn="x"))
    snapshot = a_cluster(a_pod("user", volumes=[disk, *uses("mine")]))

    found = refusals(VolumeRestrictions(EXCLUSIVE), a_pod(volumes=[disk, *uses("mine")]), snapshot)

    assert {name: each.reasons for name, each in found.items()} == {"a": (DISK_IN_USE,), "b": (CLAIM_IN_USE,)}
