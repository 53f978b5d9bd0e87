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

_INTERMEDIATE_NAMES: Mapping[str, Sequence[tuple[re.Pattern[str], tuple[str, ...]]]] = {
    "ReplicaSet": [(re.compile(rf"(.+)-{_RANDOM}{{1,10}}"), ("Deployment", "Rollout"))],
    "Job": [(re.compile(r"(.+)-\d+"), ("CronJob",))],
}
"""How names of intermediate owners are derived from the names of their workloads."""


class WorkloadIndex:
    """Finds the indexes of workloads in a trace."""

    def __init__(self, workloads: Sequence[TraceWorkload], pods: Mapping[str, int] | None = None) -> None:
        """`pods`: known indexes by `namespace/pod`. Those of other pods are derived from their names."""
        self._indexes = {(item.namespace, item.kind, item.name): index for index, item in enumerate(workloads)}
        self._pods = dict(pods or {})

    def of(self, key: Key) -> int:
        """NO_WORKLOAD if there is none with this name."""
        return self._indexes.get(key, NO_WORKLOAD)

    def of_pod(self, namespace: str, pod: str) -> int:
        """The workload of an existing or deleted pod."""
        key = f"{namespace}/{pod}"
        if key not in self._pods:
            self._pods[key] = self._by_name(namespace, pod, _POD_NAMES)
        return self._pods[key]

    def of_owner(self, key: Key, owners: Mapping[Key, Key]) -> int:
        """The workload of the direct owner of a pod. `owners`: known owners of ReplicaSets and Jobs."""
        namespace, kind, name = key
        if (index := self.of(key)) != NO_WORKLOAD:
            return index
        if key in owners:
            return self.of(owners[key])
        return self._by_name(namespace, name, _INTERMEDIATE_NAMES.get(kind, ()))

    def _by_name(self, namespace: str, name: str, patterns: Sequence[tuple[re.Pattern[str], tuple[str, ...]]]) -> int:
        """The workload whose pods, ReplicaSets or Jobs have names like this."""
        for pattern, kinds in patterns:
            if match := pattern.fullmatch(name):
                for kind in kinds:
                    if (index := self.of((namespace, kind, match[1]))) != NO_WORKLOAD:
                        return index
        return NO_WORKLOAD


def owners_of(response: Iterable[Series], kind: str, label: str) -> dict[Key, Key]:
    """Owners by owned object, from kube-state-metrics; objects with the owner `<none>` are omitted.

    `kind`: the kind of the objects that `label` names. If an object had two owners one after the other, the last one is
    used.
    """
    found: dict[Key, Key] = {}
    for series in response:
        labels = [series.labels.get(name, "") for name in ("namespace", label, "owner_kind", "owner_name")]
        namespace, name, owner_kind, owner = labels
        if namespace and name and owner_kind.isalnum() and owner:
            found[namespace, kind, name] = (namespace, owner_kind, owner)
    return found
