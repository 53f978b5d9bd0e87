"""Which pods `equipoise scheduler` never preempts. Its admission policy has the same rules."""

from equipoise.contracts.configuration.protection import SYSTEM_CRITICAL
from equipoise.contracts.eviction.opt_out import OPT_OUT
from equipoise.contracts.kubernetes.objects.cluster import Namespace
from equipoise.contracts.kubernetes.objects.metadata import Object
from equipoise.scheduling.model.pod_info import PodInfo

SYSTEM_NAMESPACES = ("kube-system", "kube-public", "kube-node-lease")


class ProtectedPods:
    """Pods of the system and of Equipoise, system-critical pods, and pods that have opted out of evictions.

    kube-scheduler would preempt all of them. Changes of namespaces are applied, because the annotation of a namespace
    protects all of its pods.
    """

    def __init__(self, own_namespace: str) -> None:
        self._excluded = {*SYSTEM_NAMESPACES, own_namespace}
        self._opted_out: set[str] = set()

    def apply(self, before: Object | None, after: Object | None) -> None:
        """Applies a change of a namespace. Other objects have no effect."""
        namespace = after or before
        if isinstance(namespace, Namespace):
            if after is not None and OPT_OUT in after.metadata.annotations:
                self._opted_out.add(namespace.metadata.name)
            else:
                self._opted_out.discard(namespace.metadata.name)

    def may_preempt(self, pod: PodInfo) -> bool:
        return (
            pod.priority < SYSTEM_CRITICAL
            and pod.namespace not in self._excluded
            and pod.namespace not in self._opted_out
            and OPT_OUT not in pod.pod.metadata.annotations
        )
