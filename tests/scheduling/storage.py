"""Claims, volumes and storage classes for the tests of the scheduling library."""

from collections.abc import Iterable, Mapping, Sequence

from scheduling.pods import a_framework

from equipoise.contracts.kubernetes.objects.metadata import (
    ObjectMeta,
    ObjectReference,
    ResourceRequirements,
    SelectorRequirement,
)
from equipoise.contracts.kubernetes.objects.node import NodeSelector, NodeSelectorTerm
from equipoise.contracts.kubernetes.objects.pod import ClaimSource, Volume
from equipoise.contracts.kubernetes.objects.storage import (
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    CsiVolume,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
    TopologyRequirement,
    TopologyTerm,
    VolumeCount,
    VolumeNodeAffinity,
)
from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.status import PluginStatus
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.model.volumes import BIND_COMPLETED, Volumes, claim_key

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"


def uses(*claims: str) -> list[Volume]:
    """The volumes of a pod with these claims."""
    return [
        Volume(name=f"volume-{index}", persistent_volume_claim=ClaimSource(claim_name=name))
        for index, name in enumerate(claims)
    ]


def a_claim(
    name: str = "data",
    *,
    volume: str = "",
    storage_class: str = "",
    size: str = "1Gi",
    modes: Sequence[str] = ("ReadWriteOnce",),
    namespace: str = "default",
    phase: str = "",
    annotations: Mapping[str, str] | None = None,
    metadata: Mapping[str, object] | None = None,
    **spec: object,
) -> PersistentVolumeClaim:
    """Bound to `volume`, if there is one."""
    bound = {BIND_COMPLETED: "yes"} if volume else {}
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            **{  # type: ignore[arg-type]  # the test says which
                "name": name,
                "namespace": namespace,
                "uid": f"uid-{name}",
                "annotations": bound | dict(annotations or {}),
                **(metadata or {}),
            }
        ),
        spec=PersistentVolumeClaimSpec(
            **{  # type: ignore[arg-type]  # the test says which
                "volume_name": volume,
                "storage_class_name": storage_class,
                "access_modes": list(modes),
                "resources": ResourceRequirements(requests={"storage": size}),
                **spec,
            }
        ),
        status=PersistentVolumeClaimStatus(phase=phase),
    )


def a_volume(
    name: str = "pv",
    *,
    storage_class: str = "",
    size: str = "1Gi",
    modes: Sequence[str] = ("ReadWriteOnce",),
    node_labels: Mapping[str, Sequence[str]] | None = None,
    claim: PersistentVolumeClaim | None = None,
    labels: Mapping[str, str] | None = None,
    driver: str = "",
    phase: str = "Available",
    metadata: Mapping[str, object] | None = None,
    **spec: object,
) -> PersistentVolume:
    """`node_labels`: the nodes that can use it, all if None. `claim`: the one that it is reserved for."""
    affinity = None
    if node_labels is not None:
        rules = [
            SelectorRequirement(key=key, operator="In", values=list(values)) for key, values in node_labels.items()
        ]
        terms = [NodeSelectorTerm(match_expressions=rules)]
        affinity = VolumeNodeAffinity(required=NodeSelector(node_selector_terms=terms))
    reference = None
    if claim is not None:
        namespace, claim_name = claim_key(claim)
        reference = ObjectReference(namespace=namespace, name=claim_name, uid=claim.metadata.uid)
    return PersistentVolume(
        metadata=ObjectMeta(**{"name": name, "labels": dict(labels or {}), **(metadata or {})}),  # type: ignore[arg-type]  # the test says which
        spec=PersistentVolumeSpec(
            **{  # type: ignore[arg-type]  # the test says which
                "storage_class_name": storage_class,
                "capacity": {"storage": size},
                "access_modes": list(modes),
                "node_affinity": affinity,
                "claim_ref": reference,
                "csi": CsiVolume(driver=driver, volume_handle=f"handle-{name}") if driver else None,
                **spec,
            }
        ),
        status=PersistentVolumeStatus(phase=phase),
    )


def a_class(
    name: str = "local",
    *,
    provisioner: str = "kubernetes.io/no-provisioner",
    waits: bool = True,
    topologies: Sequence[Mapping[str, Sequence[str]]] = (),
) -> StorageClass:
    terms = [
        TopologyTerm(
            match_label_expressions=[TopologyRequirement(key=key, values=list(values)) for key, values in each.items()]
        )
        for each in topologies
    ]
    return StorageClass(
        metadata=ObjectMeta(name=name),
        provisioner=provisioner,
        volume_binding_mode="WaitForFirstConsumer" if waits else "Immediate",
        allowed_topologies=terms,
    )


def a_csi_node(name: str, **limits: int | None) -> CSINode:
    """`limits`: by driver, whose name has a dot for each underscore; None: no limit."""
    drivers = [
        CSINodeDriver(name=driver.replace("_", "."), allocatable=VolumeCount(count=count))
        for driver, count in limits.items()
    ]
    return CSINode(metadata=ObjectMeta(name=name), spec=CSINodeSpec(drivers=drivers))


def a_storage(
    *,
    claims: Iterable[PersistentVolumeClaim] = (),
    volumes: Iterable[PersistentVolume] = (),
    classes: Iterable[StorageClass] = (),
    csi_nodes: Iterable[CSINode] = (),
) -> Volumes:
    return Volumes(
        claims={claim_key(each): each for each in claims},
        volumes={each.metadata.name: each for each in volumes},
        classes={each.metadata.name: each for each in classes},
        csi_nodes={each.metadata.name: each for each in csi_nodes},
    )


def refusals(
    plugin: object, pod: PodInfo, snapshot: ClusterSnapshot, state: CycleState | None = None
) -> dict[str, PluginStatus]:
    """By name, of the nodes that the plugin refuses; of all nodes, if it refuses the pod as a whole."""
    framework = a_framework(plugin)  # type: ignore[arg-type]  # any plugin
    state = state or CycleState()
    status, _ = framework.pre_filter(state, pod, snapshot)
    if not status.is_success:
        return dict.fromkeys(map(snapshot.name, snapshot.rows.tolist()), status)
    found = framework.filter(state, pod, snapshot, snapshot.rows).by_node()
    return {snapshot.name(row): status for row, status in found.items()}
