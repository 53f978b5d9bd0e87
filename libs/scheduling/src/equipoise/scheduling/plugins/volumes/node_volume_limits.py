"""NodeVolumeLimits: a node can attach a limited number of volumes of each CSI driver (`CSINode`).

Volumes of former in-tree drivers, such as gcePersistentDisk, are not counted, although a node counts them as volumes of
their CSI driver. Claims that are not bound yet are counted, even if their class has a former in-tree provisioner.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from equipoise.contracts.kubernetes.objects.storage import CSINode, PersistentVolumeClaim
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
from equipoise.scheduling.framework.status import Code
from equipoise.scheduling.model.arrays import Rows
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.model.volumes import Volumes, claim_key, claim_name, claim_not_found, class_of, wrong_owner

REASON = "node(s) exceed max volume count"

MIGRATED: Mapping[str, str] = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/azure-file": "",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
    "kubernetes.io/vsphere-volume": "",
}
"""The CSI driver that replaces a former in-tree provisioner. Empty if its volumes are not counted."""

Attached = dict[tuple[str, str], str]
"""The driver of each volume, by driver and handle, which identify the volume."""


class NodeVolumeLimits:
    name = "NodeVolumeLimits"

    def __init__(self, volumes: Volumes) -> None:
        self._volumes = volumes

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot) -> PreFiltered:
        return PreFiltered() if pod.claim_volumes else SKIPPED

    def filter(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Sequence[Refusal]:
        """Refuses nodes whose limits would be exceeded. Raises ValueError if the claim of an ephemeral volume belongs
        to another pod."""
        if missing := self._missing(pod):
            reason = f"looking up PVC {pod.namespace}/{missing}: {claim_not_found(missing)}"
            everywhere = np.ones(len(rows), dtype=np.bool_)
            return (Refusal(nodes=everywhere, reason=reason, code=Code.UNSCHEDULABLE_AND_UNRESOLVABLE),)
        wanted = self._attached_by(pod)
        if not wanted:
            return ()
        drivers = set(wanted.values())
        attachments = self._attachments(drivers)
        exceeded = np.zeros(len(rows), dtype=np.bool_)
        for index, row in enumerate(rows.tolist()):
            limits = _limits(self._volumes.csi_nodes.get(snapshot.name(row)))
            if not limits.keys().isdisjoint(drivers):
                exceeded[index] = self._exceeds(wanted, limits, attachments, snapshot, row)
        return (Refusal(nodes=exceeded, reason=REASON),)

    def may_help(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """Whether a pod with claims was removed, a volume was detached, or a node, its limits or a claim has
        changed."""
        if event.kind == "Pod" and isinstance(event.old, PodInfo):
            return event.action == "delete" and bool(event.old.claim_volumes)
        return is_update_of(event, pod) or is_one_of(event, _HELPFUL)

    def _exceeds(
        self,
        wanted: Attached,
        limits: Mapping[str, int],
        attachments: Mapping[str, Attached],
        snapshot: ClusterSnapshot,
        row: int,
    ) -> bool:
        name = snapshot.name(row)
        attached: Attached = {}
        for other in snapshot.pods_on(row):
            attached |= self._attached_by(other)
        added = [driver for volume, driver in wanted.items() if volume not in attached]
        # A volume may still be attached after its pod has gone.
        present = [*(attached | attachments.get(name, {})).values()]
        return any(
            driver in limits and present.count(driver) + added.count(driver) > limits[driver] for driver in set(added)
        )

    def _missing(self, pod: PodInfo) -> str | None:
        """The name of the first claim of the pod that does not exist."""
        names = (claim_name(pod, volume) for volume in pod.claim_volumes)
        return next((name for name in names if (pod.namespace, name) not in self._volumes.claims), None)

    def _attached_by(self, pod: PodInfo) -> Attached:
        """The volumes that a pod attaches. Claims that do not exist are not counted."""
        found: Attached = {}
        for volume in pod.claim_volumes:
            claim = self._volumes.claim_of(pod, volume)
            if claim is None:
                continue
            if volume.persistent_volume_claim is None and (why := wrong_owner(pod, claim)):
                raise ValueError(why)
            driver, handle = self._identity(claim)
            if driver and handle:
                found[driver, handle] = driver
        return found

    def _identity(self, claim: PersistentVolumeClaim) -> tuple[str, str]:
        """The driver and handle of the volume of a claim, or of the volume that will be provisioned. Empty if it is not
        counted."""
        volume = self._volumes.volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
        if volume is not None:
            return (volume.spec.csi.driver, volume.spec.csi.volume_handle) if volume.spec.csi else ("", "")
        storage_class = self._volumes.classes.get(class_of(claim))
        if storage_class is None:
            return "", ""
        # A handle that no volume has, because it begins with a character that no driver uses.
        handle = "\0" + "/".join(claim_key(claim))
        return MIGRATED.get(storage_class.provisioner, storage_class.provisioner), handle

    def _attachments(self, drivers: set[str]) -> Mapping[str, Attached]:
        """The attached volumes of these drivers, by node."""
        found: dict[str, Attached] = {}
        for attachment in self._volumes.attachments.values():
            spec = attachment.spec
            volume = self._volumes.volumes.get(spec.source.persistent_volume_name)
            if spec.attacher in drivers and volume is not None and volume.spec.csi is not None:
                found.setdefault(spec.node_name, {})[spec.attacher, volume.spec.csi.volume_handle] = spec.attacher
        return found


_HELPFUL: Mapping[Kind, tuple[Action, ...]] = {
    "Node": ("add",),
    "CSINode": ADDED_OR_UPDATED,
    "PersistentVolumeClaim": ADDED_OR_UPDATED,
    "Other": ("delete",),
}
"""The events that may help. Other: VolumeAttachments."""

_NO_LIMITS: Mapping[str, int] = {}


def _limits(node: CSINode | None) -> Mapping[str, int]:
    """The limits of a node by driver. A driver that is missing has no limit."""
    if node is None:
        return _NO_LIMITS
    return {
        driver.name: driver.allocatable.count
        for driver in node.spec.drivers or ()
        if driver.allocatable is not None and driver.allocatable.count is not None
    }
