"""VolumeZone: a volume with the label of a zone or region can be used only by nodes with the same label.

Checked are bound claims of a pod, not those of its ephemeral volumes. A node without any label of a zone or region is
allowed: such a cluster has one zone.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from equipoise.contracts.kubernetes.labels import REGION, ZONE
from equipoise.contracts.kubernetes.objects.storage import PersistentVolume
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
from equipoise.scheduling.framework.status import Code, PluginStatus, unresolvable
from equipoise.scheduling.model.arrays import Flags, Rows
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.model.volumes import (
    Volumes,
    claim_not_found,
    class_not_found,
    class_of,
    volume_not_found,
)

REASON = "node(s) had no available volume zone"

LABELS: Mapping[str, str] = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
    ZONE: ZONE,
    REGION: REGION,
}
"""The labels of a zone or region, and the present name of each."""

DELIMITER = "__"
"""The delimiter between the zones of a volume that is in several."""


class Topologies(msgspec.Struct, frozen=True, kw_only=True):
    """Labels that the volumes of the pod require, with the allowed values."""

    required: tuple[tuple[str, frozenset[str]], ...]

    def clone(self) -> "Topologies":
        return self


class VolumeZone:
    name = "VolumeZone"

    def __init__(self, volumes: Volumes) -> None:
        self._volumes = volumes

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot) -> PreFiltered:
        required: list[tuple[str, frozenset[str]]] = []
        for volume in pod.claim_volumes:
            if volume.persistent_volume_claim is None:
                continue
            found = self._volume(pod, volume.persistent_volume_claim.claim_name)
            if isinstance(found, PluginStatus):
                return PreFiltered(status=found)
            if found is not None:
                required += _topologies(found)
        if not required:
            return SKIPPED
        state.write(self.name, Topologies(required=tuple(required)))
        return PreFiltered()

    def filter(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Sequence[Refusal]:
        labelled: Flags = np.logical_or.reduce([_has(snapshot, label) for label in LABELS])
        refused = np.zeros(snapshot.columns, dtype=np.bool_)
        for label, values in state.read(self.name, Topologies).required:
            # A node without an old label is compared by the present name of the label.
            matches = snapshot.labels.column(label).satisfying("In", sorted(values))
            matches_present_name = snapshot.labels.column(LABELS[label]).satisfying("In", sorted(values))
            refused |= ~np.where(_has(snapshot, label), matches, matches_present_name)
        nodes = (labelled & refused)[rows]
        return (Refusal(nodes=nodes, reason=REASON, code=Code.UNSCHEDULABLE_AND_UNRESOLVABLE),)

    def may_help(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """Whether a node, a claim, a volume or a class is new or has changed."""
        return is_update_of(event, pod) or is_one_of(event, _HELPFUL)

    def _volume(self, pod: PodInfo, name: str) -> PersistentVolume | PluginStatus | None:
        """The volume of a claim, None for one that is bound later, or why the pod cannot be scheduled."""
        if not name:
            return unresolvable("PersistentVolumeClaim had no name")
        claim = self._volumes.claims.get((pod.namespace, name))
        if claim is None:
            return unresolvable(claim_not_found(name))
        if claim.spec.volume_name:
            volume = self._volumes.volumes.get(claim.spec.volume_name)
            return unresolvable(volume_not_found(claim.spec.volume_name)) if volume is None else volume
        if not class_of(claim):
            return unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
        if class_of(claim) not in self._volumes.classes:
            return unresolvable(class_not_found(class_of(claim)))
        return None if self._volumes.waits_for_consumer(claim) else unresolvable("PersistentVolume had no name")


_HELPFUL: Mapping[Kind, tuple[Action, ...]] = {
    "Node": ADDED_OR_UPDATED,
    "PersistentVolumeClaim": ADDED_OR_UPDATED,
    "PersistentVolume": ADDED_OR_UPDATED,
    "StorageClass": ADDED_OR_UPDATED,
}


def _topologies(volume: PersistentVolume) -> Iterator[tuple[str, frozenset[str]]]:
    for label in LABELS:
        values = [each.strip() for each in volume.metadata.labels.get(label, "").split(DELIMITER)]
        # A label that names an empty zone is ignored.
        if all(values):
            yield label, frozenset(values)


def _has(snapshot: ClusterSnapshot, label: str) -> Flags:
    return snapshot.labels.column(label).satisfying("Exists", ())
