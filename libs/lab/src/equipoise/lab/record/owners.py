"""Whose pod was it? Also of pods that are long gone, so that a workload keeps its history through its rollouts.

Who knows best comes first: the API server for the pods that it still has, kube-state-metrics for those before, and
where there is neither the name, as controllers make it from their own.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from equipoise.lab.model.trace import TraceWorkload
from equipoise.lab.record.queries import Series

Key = tuple[str, str, str]
"""Namespace, kind, name."""

NO_WORKLOAD = -1
"""Instead of a workload's place: none of the trace's."""

_RANDOM = "[bcdfghjklmnpqrstvwxz2456789]"
"""Kubernetes makes names from these only. Source: apimachinery/pkg/util/rand/rand.go."""

_POD_NAMES: Sequence[tuple[re.Pattern[str], tuple[str, ...]]] = (
    (re.compile(rf"(.+)-{_RANDOM}{{1,10}}-{_RANDOM}{{5}}"), ("Deployment", "Rollout")),
    (re.compile(rf"(.+)-\d+-{_RANDOM}{{5}}"), ("CronJob",)),
    (re.compile(rf"(.+)-{_RANDOM}{{5}}"), ("ReplicaSet", "DaemonSet", "ReplicationController", "Job", "CloneSet")),
    (re.compile(r"(.+)-\d+"), ("StatefulSet",)),
)
"""What a controller's name becomes in the names of its pods."""

_BETWEEN: Mapping[str, tuple[re.Pattern[str], tuple[str, ...]]] = {
    "ReplicaSet": (re.compile(rf"(.+)-{_RANDOM}{{1,10}}"), ("Deployment", "Rollout")),
    "Job": (re.compile(r"(.+)-\d+"), ("CronJob",)),
}
"""The same for what stands between a workload and its pods."""


class WorkloadIndex:
    """Finds a trace's workloads by name."""

    def __init__(self, workloads: Sequence[TraceWorkload]) -> None:
        self._places = {(item.namespace, item.kind, item.name): place for place, item in enumerate(workloads)}

    def of(self, key: Key) -> int:
        """NOBODY where there is none of this name."""
        return self._places.get(key, NO_WORKLOAD)

    def by_pod_name(self, namespace: str, pod: str) -> int:
        """The workload whose pods are called like this."""
        for pattern, kinds in _POD_NAMES:
            if (place := self._matching(namespace, pod, pattern, kinds)) != NO_WORKLOAD:
                return place
        return NO_WORKLOAD

    def above(self, key: Key, owners: Mapping[Key, Key]) -> int:
        """The workload of what directly owns a pod. `owners`: of ReplicaSets and Jobs, as far as anybody told."""
        namespace, kind, name = key
        if (place := self.of(key)) != NO_WORKLOAD:
            return place
        if key in owners:
            return self.of(owners[key])
        return self._matching(namespace, name, *_BETWEEN[kind]) if kind in _BETWEEN else NO_WORKLOAD

    def _matching(self, namespace: str, name: str, pattern: re.Pattern[str], kinds: Iterable[str]) -> int:
        match = pattern.fullmatch(name)
        found = (self.of((namespace, kind, match[1])) for kind in kinds) if match else ()
        return next((place for place in found if place != NO_WORKLOAD), NO_WORKLOAD)


class Owners:
    """The workload of any pod that ever was."""

    def __init__(self, places: WorkloadIndex, known: Mapping[str, int]) -> None:
        """`known`: by `namespace/pod`. Names are asked only where nobody knows."""
        self._places = places
        self._known = dict(known)

    def of(self, namespace: str, pod: str) -> int:
        """The place of its workload, or NOBODY."""
        key = f"{namespace}/{pod}"
        if key not in self._known:
            self._known[key] = self._places.by_pod_name(namespace, pod)
        return self._known[key]


def told(answer: Iterable[Series], kind: str, label: str) -> dict[Key, Key]:
    """Who owned what, as kube-state-metrics tells; what it calls `<none>` has no owner and is left out.

    `kind` of what `label` names. Of two owners one after the other the one told last counts.
    """
    found: dict[Key, Key] = {}
    for series in answer:
        words = [series.labels.get(name, "") for name in ("namespace", label, "owner_kind", "owner_name")]
        namespace, name, owner_kind, owner = words
        if namespace and name and owner_kind.isalnum() and owner:
            found[namespace, kind, name] = (namespace, owner_kind, owner)
    return found
