"""Gangs: pods that are scheduled together because none of them can work without the others."""

from collections.abc import Mapping

from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.plain_text import plain_text

GANG_KEYS: Mapping[str, str] = {
    "scheduling.k8s.io/group-name": "PodGroup of Volcano",
    "scheduling.volcano.sh/group-name": "PodGroup of Volcano",
    "volcano.sh/job-name": "job of Volcano",
    "scheduling.x-k8s.io/pod-group": "PodGroup of scheduler-plugins",
    "podgroup.scheduling.sigs.k8s.io": "PodGroup of scheduler-plugins",
    "pod-group.scheduling.sigs.k8s.io": "PodGroup of scheduler-plugins",
    "pod-group.scheduling.sigs.k8s.io/name": "PodGroup of scheduler-plugins",
    "gang.scheduling.koordinator.sh/name": "gang of Koordinator",
    "leaderworkerset.sigs.k8s.io/name": "LeaderWorkerSet",
    "jobset.sigs.k8s.io/jobset-name": "JobSet",
    "kueue.x-k8s.io/pod-group-name": "pod group of Kueue",
    "yunikorn.apache.org/task-group-name": "task group of YuniKorn",
    "pod-group-name": "PodGroup of KAI",
    "grove.io/podgang": "PodGang of Grove",
    "training.kubeflow.org/job-name": "job of Kubeflow",
    "armadaproject.io/gangId": "gang of Armada",
    "godel.bytedance.com/pod-group-name": "PodGroup of Gödel",
}
"""What the value of a label or annotation names, by its key. Some of these programs accept labels and annotations."""

_MAX_NAME = 63
"""The maximum number of characters of a name that are shown. Annotations may contain any text of any length."""


def gang_of(pod: Pod) -> str:
    """The gang of the pod, such as `LeaderWorkerSet vllm`. Empty if it has none that is known.

    Some groups may work with fewer pods than they have. This is not checked.
    """
    spec, meta = pod.spec, pod.metadata
    if spec.scheduling_group is not None and spec.scheduling_group.pod_group_name:
        return _named("PodGroup", spec.scheduling_group.pod_group_name)
    if spec.workload_ref is not None and spec.workload_ref.name:
        return _named("Workload", spec.workload_ref.name)
    keys = GANG_KEYS.keys()
    if keys.isdisjoint(meta.labels) and keys.isdisjoint(meta.annotations):  # nearly all pods
        return ""
    for key, kind in GANG_KEYS.items():
        if name := meta.labels.get(key) or meta.annotations.get(key):
            return _named(kind, name)
    return ""


def _named(kind: str, name: str) -> str:
    return f"{kind} {plain_text(name, _MAX_NAME)}"
