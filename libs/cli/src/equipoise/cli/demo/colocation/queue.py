"""A queue of batch pods that never ends: Jobs that replace every pod that has finished."""

import math

from equipoise.contracts.colocation.bands import RESOURCE_NAMES
from equipoise.contracts.load.pod_priority import QOS
from equipoise.testbed.objects import Manifest, constant_usage_annotations, namespace, pod_template

NAMESPACE = "batch"
PRIORITY_CLASS = "equipoise-batch"

POD_CPU_MILLI = 500
POD_MEMORY_MIB = 1_024
"""What each pod requests, and uses for as long as it runs."""

JOBS = 8
PODS_PER_NODE = 6
"""Pods per node that are pending or running at any time: more than nodes offer."""

_NEVER_REACHED = 1_000_000
_LIFETIME = "pod-complete.stage.kwok.x-k8s.io/delay"


def queue_documents(nodes: int, pod_seconds: float) -> list[Manifest]:
    """The namespace, the PriorityClass and the Jobs. `pod_seconds`: real seconds that each pod runs."""
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": PRIORITY_CLASS},
        "value": 5_000,
        "preemptionPolicy": "Never",
        "description": "Pods of the band batch: they give way to all others.",
    }
    parallel = math.ceil(nodes * PODS_PER_NODE / JOBS)
    return [namespace(NAMESPACE), priority, *(_job(f"backlog-{index}", parallel, pod_seconds) for index in range(JOBS))]


def _job(name: str, parallel: int, pod_seconds: float) -> Manifest:
    usage = constant_usage_annotations(POD_CPU_MILLI, POD_MEMORY_MIB)
    template = pod_template(
        name,
        annotations=usage | {_LIFETIME: f"{round(pod_seconds * 1_000)}ms"},
        spec={"terminationGracePeriodSeconds": 1, "restartPolicy": "Never", "priorityClassName": PRIORITY_CLASS},
    )
    template["metadata"]["labels"][QOS] = "BE"
    amounts = (str(POD_CPU_MILLI), str(POD_MEMORY_MIB * 2**20))
    requests = dict(zip(RESOURCE_NAMES["batch"], amounts, strict=True))
    template["spec"]["containers"][0]["resources"] = {"requests": requests, "limits": requests}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "parallelism": parallel,
            "completions": _NEVER_REACHED,
            "backoffLimit": _NEVER_REACHED,
            "template": template,
        },
    }
