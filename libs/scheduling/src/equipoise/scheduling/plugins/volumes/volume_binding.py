"""VolumeBinding: the volumes of a pod must be usable on the node, or there must be volumes for its claims.

For a bound claim, the node affinity of its volume decides. A claim whose class waits for the first consumer gets the
smallest existing volume that fits, or a new volume if the class allows it in the topology of the node. The volumes that
were chosen for a pod count as taken from `reserve` until the API objects contain the choice, or until `unreserve`.

There are some differences to kube-scheduler. The capacity that drivers report (`CSIStorageCapacity`) is not read, so a
node is scored only by its existing volumes. Volumes of former in-tree drivers are not migrated: their node affinity is
read as it is. The bindings are not written; `chosen` returns them. A claim that a pod mounts twice is checked once.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from equipoise.contracts.kubernetes.labels import satisfies, selects
from equipoise.contracts.kubernetes.objects.metadata import SelectorRequirement
from equipoise.contracts.kubernetes.objects.node import NodeSelectorTerm
from equipoise.contracts.kubernetes.objects.pod import Volume
from equipoise.contracts.kubernetes.objects.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
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
from equipoise.scheduling.framework.status import SKIP, SUCCESS, Code, PluginStatus, unresolvable
from equipoise.scheduling.model.arrays import Flags, Ints, Rows
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.quantities import Quantity
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.model.volumes import (
    SELECTED_NODE,
    ClaimKey,
    Volumes,
    capacity_bytes,
    claim_key,
    claim_name,
    claim_not_found,
    class_of,
    is_fully_bound,
    refers_to,
    requested_bytes,
    wrong_owner,
)
from equipoise.scheduling.plugins.resources.resource_allocation import ShapePoint, broken_linear

LESS_USED_IS_BETTER = (ShapePoint(utilization=0, score=10), ShapePoint(utilization=100, score=0))

NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NOTHING_TO_BIND = "node(s) didn't find available persistent volumes to bind"
VOLUME_MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"

NO_PROVISIONER = "kubernetes.io/no-provisioner"


class ChosenVolumes(msgspec.Struct, frozen=True, kw_only=True):
    """The volumes of the claims of a pod on one node."""

    bound: Mapping[ClaimKey, str] = {}
    """The name of the existing volume, by claim."""

    provisioned: tuple[ClaimKey, ...] = ()
    """The claims for which a volume is created."""


class ClaimsOfPod:
    """The claims of one attempt. They do not depend on the pods of a node, so preemption does not change them."""

    def __init__(self, bound: list[PersistentVolumeClaim], waiting: list[PersistentVolumeClaim]) -> None:
        self.bound = bound
        self.waiting = waiting
        """The claims that wait for a consumer, ordered by size, so that the smallest claim gets the smallest volume."""

        self.candidates: dict[ClaimKey, list[PersistentVolume]] = {}
        """The volumes to which each waiting claim may be bound, the best volume first."""

        self.matched: dict[str, dict[ClaimKey, str]] = {}
        """The name of the volume for each claim, by node."""

    def clone(self) -> "ClaimsOfPod":
        return self


class VolumeBinding:
    name = "VolumeBinding"

    def __init__(self, volumes: Volumes, shape: Sequence[ShapePoint] = LESS_USED_IS_BETTER) -> None:
        self._volumes = volumes
        self._shape = shape
        self._taken: dict[str, ClaimKey] = {}
        """The claim that will be bound to a volume, by the name of the volume."""

        self._selected: dict[ClaimKey, str] = {}
        """The node for which a volume will be provisioned, by claim."""

        self._reserved: dict[str, ChosenVolumes] = {}
        """The chosen volumes, by uid of the pod."""

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot) -> PreFiltered:
        """Checks that all claims exist, and that claims that do not wait for a consumer are bound."""
        if not pod.claim_volumes:
            return SKIPPED
        claims: dict[ClaimKey, PersistentVolumeClaim] = {}
        for volume in pod.claim_volumes:
            claim = self._volumes.claim_of(pod, volume)
            if claim is None:
                return PreFiltered(status=unresolvable(_not_found(pod, volume)))
            if why := _unusable(pod, volume, claim):
                return PreFiltered(status=unresolvable(why))
            claims[claim_key(claim)] = claim
        bound = [claim for claim in claims.values() if is_fully_bound(claim)]
        waiting = [claim for claim in claims.values() if not is_fully_bound(claim)]
        if any(claim.spec.volume_name or not self._volumes.waits_for_consumer(claim) for claim in waiting):
            return PreFiltered(status=unresolvable(UNBOUND))
        self._forget_written_choices()
        claims_of_pod = ClaimsOfPod(bound, sorted(waiting, key=requested_bytes))
        claims_of_pod.candidates = {claim_key(claim): self._candidates(claim) for claim in waiting}
        state.write(self.name, claims_of_pod)
        return PreFiltered()

    def filter(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Sequence[Refusal]:
        claims = state.read(self.name, ClaimsOfPod)
        conflict, missing = self._check_bound(claims.bound, snapshot, rows)
        unmatched = np.zeros(len(rows), dtype=np.bool_)
        if claims.waiting:
            unmatched = ~self._match(claims, snapshot, rows)
        return [
            Refusal(nodes=nodes, reason=reason, code=Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
            for nodes, reason in ((conflict, NODE_CONFLICT), (unmatched, NOTHING_TO_BIND), (missing, VOLUME_MISSING))
        ]

    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> PluginStatus:
        """SKIP if no existing volume matches a claim of the pod, because only existing volumes are scored."""
        try:
            claims = state.read(self.name, ClaimsOfPod)
        except KeyError:  # the pod has no claims
            return SKIP
        return SUCCESS if any(claims.matched.values()) else SKIP

    def score(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Ints:
        """Scores (0..100) by the share of the volumes that the claims request, as the mean over storage classes."""
        claims = state.read(self.name, ClaimsOfPod)
        return np.fromiter((self._score_on(snapshot.name(row), claims) for row in rows.tolist()), np.int64, len(rows))

    def _score_on(self, node: str, claims: ClaimsOfPod) -> int:
        requested: Counter[str] = Counter()
        capacity: Counter[str] = Counter()
        for claim in claims.waiting:
            if name := claims.matched[node].get(claim_key(claim)):
                volume = self._volumes.volumes[name]
                requested[volume.spec.storage_class_name] += requested_bytes(claim).value()
                capacity[volume.spec.storage_class_name] += capacity_bytes(volume).value()
        if not capacity:
            return 0
        percent = [min(requested[name] * 100 // size, 100) if size else 100 for name, size in capacity.items()]
        scores = broken_linear(self._shape, np.array(percent, dtype=np.int64))
        # This is math.Round of Go, which rounds halves away from zero.
        return int(np.floor(scores.mean() + 0.5))

    def chosen(self, state: CycleState, node: str) -> ChosenVolumes:
        """The volumes that must be written before the pod is bound to a feasible node."""
        try:
            claims = state.read(self.name, ClaimsOfPod)
        except KeyError:  # the pod has no claims
            return ChosenVolumes()
        bound = claims.matched.get(node, {})
        return ChosenVolumes(
            bound=bound, provisioned=tuple(key for key in map(claim_key, claims.waiting) if key not in bound)
        )

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> PluginStatus:
        chosen = self.chosen(state, node)
        self._reserved[pod.uid] = chosen
        for key, name in chosen.bound.items():
            self._taken[name] = key
        for key in chosen.provisioned:
            self._selected[key] = node
        return SUCCESS

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        chosen = self._reserved.pop(pod.uid, ChosenVolumes())
        for name in chosen.bound.values():
            self._taken.pop(name, None)
        for key in chosen.provisioned:
            self._selected.pop(key, None)

    def _forget_written_choices(self) -> None:
        """Forgets the choices that the API objects already contain."""
        claims, volumes = self._volumes.claims, self._volumes.volumes
        for name, key in list(self._taken.items()):
            if key not in claims or name not in volumes or volumes[name].spec.claim_ref is not None:
                del self._taken[name]
        for key in list(self._selected):
            if key not in claims or is_fully_bound(claims[key]) or SELECTED_NODE in claims[key].metadata.annotations:
                del self._selected[key]

    def may_help(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """Whether a node, claim, volume, storage class or CSINode was added or updated."""
        return is_update_of(event, pod) or is_one_of(event, _HELPFUL)

    # Bound claims

    def _check_bound(
        self, claims: Iterable[PersistentVolumeClaim], snapshot: ClusterSnapshot, rows: Rows
    ) -> tuple[Flags, Flags]:
        """The nodes on which a volume cannot be used, and the nodes refused because a volume does not exist."""
        conflict = np.zeros(len(rows), dtype=np.bool_)
        for claim in claims:
            volume = self._volumes.volumes.get(claim.spec.volume_name)
            if volume is None:
                # A node is refused for the first claim with a fault.
                return conflict, ~conflict
            conflict |= ~_usable_on(volume, snapshot, rows)
        return conflict, np.zeros(len(rows), dtype=np.bool_)

    # Claims that wait for a consumer

    def _candidates(self, claim: PersistentVolumeClaim) -> list[PersistentVolume]:
        """The volumes for a claim: first those reserved for it, then free volumes by size."""
        size = requested_bytes(claim)
        reserved, free = [], []
        for volume in self._volumes.of_class(class_of(claim)):
            if not _matches(volume, claim, size):
                continue
            if self._is_reserved(volume, claim):
                reserved.append(volume)
            elif self._is_free(volume) and _offers(volume, claim):
                free.append(volume)
        return [*reserved, *sorted(free, key=capacity_bytes)]

    def _is_free(self, volume: PersistentVolume) -> bool:
        return volume.spec.claim_ref is None and volume.metadata.name not in self._taken

    def _is_reserved(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
        return refers_to(volume, claim) or self._taken.get(volume.metadata.name) == claim_key(claim)

    def _match(self, claims: ClaimsOfPod, snapshot: ClusterSnapshot, rows: Rows) -> Flags:
        """Whether all claims get a volume, for each node. Stores the volumes in `claims.matched`."""
        satisfied = np.ones(len(rows), dtype=np.bool_)
        chosen: list[dict[ClaimKey, str]] = [{} for _ in rows]
        # The positions at which an earlier claim gets a volume, by the name of the volume.
        taken: dict[str, set[int]] = {}
        positions_of = _Positions(snapshot, rows)
        for claim in claims.waiting:
            key = claim_key(claim)
            provisioned = self._provisioned(claim, snapshot, rows)
            node = claim.metadata.annotations.get(SELECTED_NODE, self._selected.get(key))
            if node is not None:
                row = snapshot.row(node)
                satisfied &= provisioned & (rows == (-1 if row is None else row))
                continue
            undecided = set(range(len(rows)))
            matched = np.zeros(len(rows), dtype=np.bool_)
            for volume in claims.candidates[key]:
                name = volume.metadata.name
                earlier = taken.setdefault(name, set())
                takes = [
                    position for position in positions_of(volume) if position in undecided and position not in earlier
                ]
                if self._is_reserved(volume, claim):
                    # No other volume is possible, not even on nodes that cannot use this one.
                    undecided &= earlier
                else:
                    undecided.difference_update(takes)
                earlier.update(takes)
                matched[takes] = True
                for position in takes:
                    chosen[position][key] = name
                if not undecided:
                    break
            satisfied &= matched | provisioned
        for row, volumes in zip(rows.tolist(), chosen, strict=True):
            claims.matched[snapshot.name(row)] = volumes
        return satisfied

    def _provisioned(self, claim: PersistentVolumeClaim, snapshot: ClusterSnapshot, rows: Rows) -> Flags:
        """Whether a volume can be created for the claim on each node."""
        storage_class = self._volumes.classes[class_of(claim)]
        if storage_class.provisioner in ("", NO_PROVISIONER):
            return np.zeros(len(rows), dtype=np.bool_)
        return _in_topology(storage_class, snapshot)[rows]


_HELPFUL: Mapping[Kind, tuple[Action, ...]] = {
    "Node": ADDED_OR_UPDATED,
    "PersistentVolumeClaim": ADDED_OR_UPDATED,
    "PersistentVolume": ADDED_OR_UPDATED,
    "StorageClass": ADDED_OR_UPDATED,
    "CSINode": ADDED_OR_UPDATED,
}


def _not_found(pod: PodInfo, volume: Volume) -> str:
    name = claim_name(pod, volume)
    if volume.persistent_volume_claim is None:
        return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
    return claim_not_found(name)


def _unusable(pod: PodInfo, volume: Volume, claim: PersistentVolumeClaim) -> str | None:
    name = claim.metadata.name
    if claim.status.phase == "Lost":
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.spec.volume_name}"'
    if claim.metadata.deletion_timestamp is not None:
        return f'persistentvolumeclaim "{name}" is being deleted'
    return wrong_owner(pod, claim) if volume.persistent_volume_claim is None else None


def _matches(volume: PersistentVolume, claim: PersistentVolumeClaim, size: Quantity) -> bool:
    """Whether the volume is large enough, is not being deleted, and has the volume mode and attributes class of the
    claim. This also applies to volumes that are reserved for the claim."""
    wanted, offered = claim.spec, volume.spec
    try:
        capacity = capacity_bytes(volume)
    except ValueError:  # an invalid volume must not prevent the use of others
        return False
    return (
        capacity >= size
        and wanted.volume_mode == offered.volume_mode
        and wanted.volume_attributes_class_name == offered.volume_attributes_class_name
        and volume.metadata.deletion_timestamp is None
    )


def _offers(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a free volume is available, and has the labels and access modes that the claim requires."""
    selector = claim.spec.selector
    return (
        volume.status.phase == "Available"
        and (selector is None or selects(selector, volume.metadata.labels))
        and all(mode in volume.spec.access_modes for mode in claim.spec.access_modes)
    )


class _Positions:
    """The positions of the nodes that can use a volume. It is fast if each volume belongs to one node."""

    def __init__(self, snapshot: ClusterSnapshot, rows: Rows) -> None:
        self._snapshot = snapshot
        self._rows = rows
        self._position = {row: position for position, row in enumerate(rows.tolist())}

    def __call__(self, volume: PersistentVolume) -> Iterable[int]:
        """The positions in `rows` of the nodes that can use the volume, each once."""
        required = volume.spec.node_affinity.required if volume.spec.node_affinity else None
        match required.node_selector_terms if required else ():
            case [NodeSelectorTerm(match_expressions=[SelectorRequirement(key=key, operator="In", values=[value])])]:
                rows = self._snapshot.labels.column(key).rows_with(value).tolist()
                return (self._position[row] for row in rows if row in self._position)
        positions: list[int] = _usable_on(volume, self._snapshot, self._rows).nonzero()[0].tolist()
        return positions


def _usable_on(volume: PersistentVolume, snapshot: ClusterSnapshot, rows: Rows) -> Flags:
    """Whether the volume's node affinity matches each node."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return np.ones(len(rows), dtype=np.bool_)
    terms = affinity.required.node_selector_terms
    if any(not term.match_expressions and term.match_fields for term in terms):
        # kube-scheduler compares only labels, so a term with only fields matches every node.
        return np.ones(len(rows), dtype=np.bool_)
    if len(rows) == 1:
        labels = snapshot.node(int(rows[0])).metadata.labels
        return np.array([any(_matches_labels(term, labels) for term in terms)], dtype=np.bool_)
    # `selected` is not used, because it keeps its results, and there may be as many volumes as nodes.
    flags = [snapshot.labels.term(msgspec.structs.replace(term, match_fields=[])) for term in terms]
    matching: Flags = np.logical_or.reduce(flags) if flags else np.zeros(snapshot.columns, dtype=np.bool_)
    return matching[rows]


def _matches_labels(term: NodeSelectorTerm, labels: Mapping[str, str]) -> bool:
    """Whether a term matches a node with these labels. A term without requirements matches no node."""
    rules = term.match_expressions
    return bool(rules) and all(satisfies(labels.get(rule.key), rule.operator, rule.values) for rule in rules)


def _in_topology(storage_class: StorageClass, snapshot: ClusterSnapshot) -> Flags:
    """Whether the class allows volumes on each node. Without topologies, it allows them on all nodes."""
    if not storage_class.allowed_topologies:
        return np.ones(snapshot.columns, dtype=np.bool_)
    allowed = np.zeros(snapshot.columns, dtype=np.bool_)
    for term in storage_class.allowed_topologies:
        rules = term.match_label_expressions
        if rules:
            allowed |= np.logical_and.reduce(
                [snapshot.labels.column(rule.key).satisfying("In", rule.values) for rule in rules]
            )
    return allowed
