"""Which pods belong together: those of the same Services and of the same workload."""

from collections.abc import Mapping

from equipoise.contracts.kubernetes.objects.metadata import LabelSelector, Object, SelectorRequirement
from equipoise.contracts.kubernetes.objects.workload import KubernetesService, ReplicationController, WorkloadObject
from equipoise.scheduling.model.pod_info import PodInfo

ObjectKey = tuple[str, str, str]
"""Kind, namespace and name."""

_MOST_SELECTORS = 10_000
"""The maximum number of selectors that are kept."""

_KINDS = {("v1", "ReplicationController"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet")}


class SpreadSelectors:
    """Services, by namespace and name, and ReplicaSets, StatefulSets and ReplicationControllers. All may change."""

    def __init__(
        self, services: Mapping[str, Mapping[str, KubernetesService]], workloads: Mapping[ObjectKey, Object]
    ) -> None:
        self._services_of = services
        self._workloads = workloads
        self._kept: dict[ObjectKey, tuple[Object | None, Mapping[str, str], LabelSelector | None]] = {}
        """The owner object, the labels of the Services and the selector, which follows from both, by owner of pods."""

    def __call__(self, pod: PodInfo) -> LabelSelector | None:
        """What PodTopologySpread selects by default: None without such an object.

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
        found: dict[str, str] = {}
        for each in self._services_of.get(pod.namespace, {}).values():
            selector = each.spec.selector
            if selector and selector.items() <= pod.labels.items():
                found |= selector
        return found


def _selector(service_labels: Mapping[str, str], workload: Object | None) -> LabelSelector | None:
    labels = dict(service_labels)
    rules: list[SelectorRequirement] = []
    if isinstance(workload, ReplicationController):
        labels |= workload.spec.selector
    elif isinstance(workload, WorkloadObject) and workload.spec.selector is not None:
        # Not merged into the labels: a workload whose selector contradicts that of a Service selects no pod.
        own = workload.spec.selector.match_labels.items()
        rules = [SelectorRequirement(key=key, operator="In", values=[value]) for key, value in own]
        rules += workload.spec.selector.match_expressions
    return LabelSelector(match_labels=labels, match_expressions=rules) if labels or rules else None
