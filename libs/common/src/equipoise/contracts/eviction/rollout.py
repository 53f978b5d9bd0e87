"""Whether the controller of a workload is replacing its pods, or will replace them."""

import math

from equipoise.contracts.eviction.candidate import Candidate, Rules
from equipoise.contracts.kubernetes.labels import integer
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject

REVISION = "controller-revision-hash"
"""Label of the pods of StatefulSets and CloneSets."""


def rolling_out(candidate: Candidate, rules: Rules, now: float) -> str:
    workload = candidate.workload_object
    if workload is None:
        return ""
    status = workload.status
    if status.observed_generation < workload.metadata.generation:
        return f"{candidate.workload} was changed and its controller has not processed it yet"
    # Only Deployments and Rollouts report the pods of the newest template without revisions. Missing pods alone are no
    # rollout.
    counts_updated = candidate.workload is not None and candidate.workload.kind in ("Deployment", "Rollout")
    revises = status.current_revision != "" and status.update_revision not in ("", status.current_revision)
    if (counts_updated or revises) and (why := _unfinished_rollout(candidate, workload)):
        return f"{candidate.workload} {why}"
    if status.replicas > candidate.replicas and not is_paused(workload):
        return f"{candidate.workload} is being scaled down: {candidate.replicas} of {status.replicas} pods will remain"
    if status.ready_replicas == 0:
        return f"{candidate.workload} has no ready replica"
    return ""


def _unfinished_rollout(candidate: Candidate, workload: WorkloadObject) -> str:
    """Describes a rollout. Empty if the controller replaces no pods by itself, and a replacement would have the same
    revision.

    Different revisions alone are no rollout. They remain with OnDelete, with a partition, and while pods are not ready.
    The partition of a StatefulSet keeps its first pods, that of a CloneSet any pods, on the previous revision.
    """
    status, strategy = workload.status, workload.spec.update_strategy
    earlier = status.replicas - status.updated_replicas
    if earlier <= 0 or is_paused(workload):
        return ""
    if strategy.type == "OnDelete":
        revision = candidate.pod.metadata.labels.get(REVISION, "")
        if revision and f"-{status.update_revision}".endswith(f"-{revision}"):  # some CloneSets write only the hash
            return ""
        return f"updates a pod when it is deleted (OnDelete): the replacement would be of {status.update_revision}"
    if earlier <= _kept_by_partition(workload, candidate.replicas):
        return ""
    new = f"{status.update_revision}: " if status.update_revision else ""
    return f"is rolling out {new}{status.updated_replicas} of {status.replicas} pods are new"


def is_paused(workload: WorkloadObject) -> bool:
    """Whether the controller has stopped updating pods: by the user, at a step of a canary, or after a failed
    canary."""
    spec, status = workload.spec, workload.status
    return spec.paused or spec.update_strategy.paused or bool(status.pause_conditions) or status.abort


def _kept_by_partition(workload: WorkloadObject, replicas: int) -> int:
    """The number of pods that remain on the previous revision. Source: kruise, `CalculatePartitionReplicas`."""
    strategy, expected = workload.spec.update_strategy, workload.status.expected_updated_replicas
    if expected is not None:
        return max(0, replicas - expected)
    partition = strategy.partition
    if partition is None and strategy.rolling_update is not None:
        partition = strategy.rolling_update.partition
    if isinstance(partition, str):
        number = integer(partition.removesuffix("%"))
        if number is None or number < 0:
            return 0
        if not partition.endswith("%"):
            return number
        kept = math.ceil(replicas * number / 100)
        return kept - 1 if kept == replicas and number < 100 else kept
    return partition or 0
