"""Which pods belong together: those of the same Services and of the same workload."""

from collections.abc import Mapping

from equipoise.contracts.kubernetes.objects import (
    KubernetesService,
    LabelSelector,
    Object,
    ReplicationController,
    SelectorRequirement,
    WorkloadObject,
)
from equipoise.scheduling.model.pod_info import PodInfo

ObjectKey = tuple[str, str, str]
"""Kind, namespace and name."""

_KINDS = {("v1", "ReplicationController"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet")}


class SpreadSelectors:
    """Services, by namespace and name, and ReplicaSets, StatefulSets and ReplicationControllers. All may change."""

    def __init__(
        self, services: Mapping[str, Mapping[str, KubernetesService]], workloads: Mapping[ObjectKey, Object]
    ) -> None:
        self._services_of = services
        self._workloads = workloads

    def __call__(self, pod: PodInfo) -> LabelSelector | None:
        """What PodTopologySpread selects by default: None without such an object.

        Source: `DefaultSelector` of pkg/scheduler/framework/plugins/helper.
        """
        labels = dict(self._service_labels(pod))
        rules: list[SelectorRequirement] = []
        owner = pod.pod.metadata.controller
        workload = None
        if owner is not None and (owner.api_version, owner.kind) in _KINDS:
            workload = self._workloads.get((owner.kind, pod.namespace, owner.name))
        if isinstance(workload, ReplicationController):
            labels |= workload.spec.selector
        elif isinstance(workload, WorkloadObject) and workload.spec.selector is not None:
            # Not merged into the labels: a workload whose selector contradicts that of a Service selects no pod.
            own = workload.spec.selector.match_labels.items()
            rules = [SelectorRequirement(key=key, operator="In", values=[value]) for key, value in own]
            rules += workload.spec.selector.match_expressions
        return LabelSelector(match_labels=labels, match_expressions=rules) if labels or rules else None

    def _service_labels(self, pod: PodInfo) -> Mapping[str, str]:
        """The labels by which the pod's Services select it."""
        found: dict[str, str] = {}
        for each in self._services_of.get(pod.namespace, {}).values():
            selector = each.spec.selector
            if selector and selector.items() <= pod.labels.items():
                found |= selector
        return found
