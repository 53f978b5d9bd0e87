"""VolumeRestrictions: volumes that only one pod, or only one pod of a node, may use.

These are claims with the access mode ReadWriteOncePod, and disks that a pod uses without a claim (gcePersistentDisk,
awsElasticBlockStore, iscsi, rbd).

There is one difference to kube-scheduler. When preemption tries to remove a pod of another namespace with a claim of
the same name, kube-scheduler counts it as a user of the claim, because it compares names only.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from equipoise.contracts.kubernetes.objects.pod import Volume
from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.events import (
    ADDED_OR_UPDATED,
    Action,
    ClusterEvent,
    Kind,
    is_one_of,
    is_update_of,
)
from equipoise.scheduling.framework.plugin import SKIPPED, PreFiltered, Refusal
from equipoise.scheduling.framework.status import unresolvable
from equipoise.scheduling.model.arrays import Rows
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.model.volumes import Volumes, claim_not_found

DISK_IN_USE = "node(s) had no available disk"
CLAIM_IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
READ_WRITE_ONCE_POD = "ReadWriteOncePod"


class ExclusiveClaims:
    """The claims of the pod that no other pod may use."""

    def __init__(self, namespace: str, names: frozenset[str], used: int) -> None:
        self.namespace = namespace
        self.names = names
        self.used = used
        """The number of uses of these claims by other pods."""

    def clone(self) -> "ExclusiveClaims":
        return ExclusiveClaims(self.namespace, self.names, self.used)

    def uses_of(self, pod: PodInfo) -> int:
        return 0 if pod.namespace != self.namespace else sum(name in self.names for name in _claims(pod))


class VolumeRestrictions:
    name = "VolumeRestrictions"

    def __init__(self, volumes: Volumes) -> None:
        self._volumes = volumes

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot) -> PreFiltered:
        if not pod.pod.spec.volumes:
            return SKIPPED
        exclusive = set()
        for name in _claims(pod):
            claim = self._volumes.claims.get((pod.namespace, name))
            if claim is None:
                return PreFiltered(status=unresolvable(claim_not_found(name)))
            if READ_WRITE_ONCE_POD in claim.spec.access_modes:
                exclusive.add(name)
        used = len(exclusive & _claims_in_use(pod.namespace, snapshot)) if exclusive else 0
        if not used and not any(map(_is_disk, pod.pod.spec.volumes)):
            return SKIPPED
        state.write(self.name, ExclusiveClaims(pod.namespace, frozenset(exclusive), used))
        return PreFiltered()

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, row: int, snapshot: ClusterSnapshot) -> None:
        exclusive = state.read(self.name, ExclusiveClaims)
        exclusive.used += exclusive.uses_of(added)

    def remove_pod(
        self, state: CycleState, pod: PodInfo, removed: PodInfo, row: int, snapshot: ClusterSnapshot
    ) -> None:
        exclusive = state.read(self.name, ExclusiveClaims)
        exclusive.used -= exclusive.uses_of(removed)

    def filter(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Sequence[Refusal]:
        disks = [volume for volume in pod.pod.spec.volumes if _is_disk(volume)]
        occupied = np.array(
            [bool(disks) and any(_shares(disks, other) for other in snapshot.pods_on(row)) for row in rows.tolist()],
            dtype=np.bool_,
        )
        refusals = [Refusal(nodes=occupied, reason=DISK_IN_USE)]
        if state.read(self.name, ExclusiveClaims).used > 0:
            refusals.append(Refusal(nodes=~occupied, reason=CLAIM_IN_USE))
        return refusals

    def may_help(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """Whether a pod with one of these disks or claims was removed, a claim was added or changed, or a node was
        added."""
        if event.kind == "Pod" and event.action == "delete" and isinstance(event.old, PodInfo):
            disks = [volume for volume in pod.pod.spec.volumes if _is_disk(volume)]
            shares_claim = pod.namespace == event.old.namespace and not set(_claims(pod)).isdisjoint(_claims(event.old))
            return shares_claim or _shares(disks, event.old)
        return is_update_of(event, pod) or is_one_of(event, _HELPFUL)


_HELPFUL: Mapping[Kind, tuple[Action, ...]] = {"Node": ("add",), "PersistentVolumeClaim": ADDED_OR_UPDATED}


def _claims(pod: PodInfo) -> list[str]:
    """The names of the claims of a pod, except those of ephemeral volumes, which no other pod can use."""
    return [volume.persistent_volume_claim.claim_name for volume in pod.claim_volumes if volume.persistent_volume_claim]


def _claims_in_use(namespace: str, snapshot: ClusterSnapshot) -> set[str]:
    return {
        name
        for row in snapshot.rows.tolist()
        for pod in snapshot.pods_on(row)
        if pod.namespace == namespace
        for name in _claims(pod)
    }


def _is_disk(volume: Volume) -> bool:
    disks = (volume.gce_persistent_disk, volume.aws_elastic_block_store, volume.iscsi, volume.rbd)
    return any(disk is not None for disk in disks)


def _shares(disks: Sequence[Volume], other: PodInfo) -> bool:
    return any(_conflict(mine, theirs) for mine in disks for theirs in other.pod.spec.volumes)


def _conflict(mine: Volume, theirs: Volume) -> bool:
    """Whether two volumes are the same disk and cannot both be used. Pods may share a disk that all of them only read,
    except disks of AWS."""
    if mine.gce_persistent_disk and theirs.gce_persistent_disk:
        disk, other = mine.gce_persistent_disk, theirs.gce_persistent_disk
        return disk.pd_name == other.pd_name and not (disk.read_only and other.read_only)
    if mine.aws_elastic_block_store and theirs.aws_elastic_block_store:
        return mine.aws_elastic_block_store.volume_id == theirs.aws_elastic_block_store.volume_id
    if mine.iscsi and theirs.iscsi:
        return mine.iscsi.iqn == theirs.iscsi.iqn and not (mine.iscsi.read_only and theirs.iscsi.read_only)
    if mine.rbd and theirs.rbd:
        image, other_image = mine.rbd, theirs.rbd
        same_name = (image.pool, image.image) == (other_image.pool, other_image.image)
        same_cluster = not set(image.monitors).isdisjoint(other_image.monitors)
        return same_name and same_cluster and not (image.read_only and other_image.read_only)
    return False
