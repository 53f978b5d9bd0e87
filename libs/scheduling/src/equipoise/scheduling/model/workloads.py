"""The selectors of pods that belong together: pods of the same Services and of the same workload."""

from collections.abc import Mapping

from equipoise.contracts.kubernetes.objects.metadata import LabelSelector, Object, SelectorRequirement
from equipoise.contracts.kubernetes.objects.workload import KubernetesService, ReplicationController, WorkloadObject
from equipoise.scheduling.model.pod_info import PodInfo

ObjectKey = tuple[str, str, str]
"""The kind, namespace and name of an object."""

_MOST_SELECTORS = 10_000
"""The maximum number of selectors that are kept."""

_KINDS = {("v1", "ReplicationController"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet")}


class SpreadSelectors:
    """The selectors by which PodTopologySpread spreads pods by default.

    `services`: Services by namespace and name. `workloads`: ReplicaSets, StatefulSets and ReplicationControllers. Both
    mappings may change.
    """

    def __init__(
        self, services: Mapping[str, Mapping[str, KubernetesService]], workloads: Mapping[ObjectKey, Object]
    ) -> None:
        self._services_of = services
        self._workloads = workloads
        self._kept: dict[ObjectKey, tuple[Object | None, Mapping[str, str], LabelSelector | None]] = {}
        """The owner object, the labels of the Services, and the selector that results from both, by the owner of the
        pods."""

    def __call__(self, pod: PodInfo) -> LabelSelector | None:
        """The selector for a pod; None without a Service or workload that selects it.

        Source: `DefaultSelector` of pkg/scheduler/framework/plugins/helper.
        """
        labels = self._service_labels(pod)
        owner = pod.pod.metadata.controller
        if owner is None or (owner.api_version, owner.kind) not in _KINDS:
            return _selector(labels, None)
        key = (owner.kind, pod.namespace, owner.name)
        workload = self._workloads.get(key)
        kept = self._kept.get(key)
        if kept is None or kept[0] is not workload or kept[1] != labels:
            if len(self._kept) >= _MOST_SELECTORS:
                self._kept.clear()
            kept = self._kept[key] = (workload, labels, _selector(labels, workload))
        return kept[2]

    def _service_labels(self, pod: PodInfo) -> Mapping[str, str]:
        """The labels by which the pod's Services select it."""
        labels: dict[str, str] = {}
        for service in self._services_of.get(pod.namespace, {}).values():
            selector = service.spec.selector
            if selector and selector.items() <= pod.labels.items():
                labels |= selector
        return labels


def _selector(service_labels: Mapping[str, str], workload: Object | None) -> LabelSelector | None:
    labels = dict(service_labels)
    rules: list[SelectorRequirement] = []
    if isinstance(workload, ReplicationController):
        labels |= workload.spec.selector
    elif isinstance(workload, WorkloadObject) and workload.spec.selector is not None:
        # The rules are not merged into the labels, so that a workload and a Service with contradicting selectors select
        # no pod.
        own = workload.spec.selector.match_labels.items()
        rules = [SelectorRequirement(key=key, operator="In", values=[value]) for key, value in own]
        rules += workload.spec.selector.match_expressions
    return LabelSelector(match_labels=labels, match_expressions=rules) if labels or rules else None
