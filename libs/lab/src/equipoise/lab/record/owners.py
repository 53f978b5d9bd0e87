"""Finds the workload of a pod, including deleted pods, so that a workload keeps its history across rollouts.

The sources, in this order: the API server for existing pods, kube-state-metrics for deleted ones, and otherwise the
name of the pod, which controllers derive from their own.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from equipoise.lab.model.trace import TraceWorkload
from equipoise.lab.record.queries import Series

Key = tuple[str, str, str]
"""Namespace, kind, name."""

NO_WORKLOAD = -1
"""Used instead of an index for pods without a workload in the trace."""

_RANDOM = "[bcdfghjklmnpqrstvwxz2456789]"
"""Characters of generated names. Source: apimachinery/pkg/util/rand/rand.go."""

_POD_NAMES: Sequence[tuple[re.Pattern[str], tuple[str, ...]]] = (
    (re.compile(rf"(.+)-{_RANDOM}{{1,10}}-{_RANDOM}{{5}}"), ("Deployment", "Rollout")),
    (re.compile(rf"(.+)-\d+-{_RANDOM}{{5}}"), ("CronJob",)),
    (re.compile(rf"(.+)-{_RANDOM}{{5}}"), ("ReplicaSet", "DaemonSet", "ReplicationController", "Job", "CloneSet")),
    (re.compile(r"(.+)-\d+"), ("StatefulSet",)),
)
"""How pod names are derived from the names of their controllers."""

_INTERMEDIATE_NAMES: Mapping[str, tuple[re.Pattern[str], tuple[str, ...]]] = {
    "ReplicaSet": (re.compile(rf"(.+)-{_RANDOM}{{1,10}}"), ("Deployment", "Rollout")),
    "Job": (re.compile(r"(.+)-\d+"), ("CronJob",)),
}
"""How names of intermediate owners are derived from the names of their workloads."""


class WorkloadIndex:
    """Finds workloads of a trace by name."""

    def __init__(self, workloads: Sequence[TraceWorkload]) -> None:
        self._indexes = {(item.namespace, item.kind, item.name): place for place, item in enumerate(workloads)}

    def of(self, key: Key) -> int:
        """NO_WORKLOAD if there is none with this name."""
        return self._indexes.get(key, NO_WORKLOAD)

    def by_pod_name(self, namespace: str, pod: str) -> int:
        """The workload whose pods have names like this."""
        for pattern, kinds in _POD_NAMES:
            if (place := self._matching(namespace, pod, pattern, kinds)) != NO_WORKLOAD:
                return place
        return NO_WORKLOAD

    def above(self, key: Key, owners: Mapping[Key, Key]) -> int:
        """The workload of the direct owner of a pod. `owners`: known owners of ReplicaSets and Jobs."""
        namespace, kind, name = key
        if (place := self.of(key)) != NO_WORKLOAD:
            return place
        if key in owners:
            return self.of(owners[key])
        return (
            self._matching(namespace, name, *_INTERMEDIATE_NAMES[kind]) if kind in _INTERMEDIATE_NAMES else NO_WORKLOAD
        )

    def _matching(self, namespace: str, name: str, pattern: re.Pattern[str], kinds: Iterable[str]) -> int:
        match = pattern.fullmatch(name)
        found = (self.of((namespace, kind, match[1])) for kind in kinds) if match else ()
        return next((place for place in found if place != NO_WORKLOAD), NO_WORKLOAD)


class Owners:
    """The workload of any existing or deleted pod."""

    def __init__(self, index: WorkloadIndex, known: Mapping[str, int]) -> None:
        """`known`: workload indexes by `namespace/pod`. Others are derived from names."""
        self._index = index
        self._known = dict(known)

    def of(self, namespace: str, pod: str) -> int:
        """The index of its workload, or NO_WORKLOAD."""
        key = f"{namespace}/{pod}"
        if key not in self._known:
            self._known[key] = self._index.by_pod_name(namespace, pod)
        return self._known[key]


def owners_of(response: Iterable[Series], kind: str, label: str) -> dict[Key, Key]:
    """Owners by owned object, from kube-state-metrics; objects with the owner `<none>` are omitted.

    `kind`: of the objects that `label` names. With two successive owners, the last one is used.
    """
    found: dict[Key, Key] = {}
    for series in response:
        labels = [series.labels.get(name, "") for name in ("namespace", label, "owner_kind", "owner_name")]
        namespace, name, owner_kind, owner = labels
        if namespace and name and owner_kind.isalnum() and owner:
            found[namespace, kind, name] = (namespace, owner_kind, owner)
    return found
