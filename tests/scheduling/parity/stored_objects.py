"""The kinds of objects of a random cluster, besides nodes and pods, and where the API server has them."""

from equipoise.contracts.kubernetes.objects.cluster import Namespace
from equipoise.contracts.kubernetes.objects.metadata import Object
from equipoise.contracts.kubernetes.objects.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from equipoise.contracts.kubernetes.objects.workload import (
    KubernetesService,
    PodDisruptionBudget,
    ReplicationController,
    WorkloadObject,
)

OTHERS: tuple[tuple[str, type[Object], str], ...] = (
    ("/api/v1/namespaces", Namespace, "Namespace"),
    ("/apis/policy/v1/poddisruptionbudgets", PodDisruptionBudget, "PodDisruptionBudget"),
    ("/api/v1/services", KubernetesService, "Service"),
    ("/apis/apps/v1/replicasets", WorkloadObject, "ReplicaSet"),
    ("/apis/apps/v1/statefulsets", WorkloadObject, "StatefulSet"),
    ("/api/v1/replicationcontrollers", ReplicationController, "ReplicationController"),
    ("/api/v1/persistentvolumes", PersistentVolume, "PersistentVolume"),
    ("/api/v1/persistentvolumeclaims", PersistentVolumeClaim, "PersistentVolumeClaim"),
    ("/apis/storage.k8s.io/v1/storageclasses", StorageClass, "StorageClass"),
    ("/apis/storage.k8s.io/v1/csinodes", CSINode, "CSINode"),
    ("/apis/storage.k8s.io/v1/volumeattachments", VolumeAttachment, "VolumeAttachment"),
)
"""Path of the list, type and kind."""

NAMESPACED = (
    "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "/api/v1/namespaces/{}/services",
    "/apis/apps/v1/namespaces/{}/replicasets",
    "/apis/apps/v1/namespaces/{}/statefulsets",
    "/api/v1/namespaces/{}/replicationcontrollers",
    "/api/v1/namespaces/{}/persistentvolumeclaims",
)

CLUSTER_WIDE = (
    "/api/v1/persistentvolumes",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/apis/storage.k8s.io/v1/csinodes",
    "/apis/storage.k8s.io/v1/volumeattachments",
    "/apis/node.k8s.io/v1/runtimeclasses",
    "/api/v1/nodes",
)
