"""Which pods are protected because their controller replaces pods."""

from typing import Any

import msgspec
import pytest
from builders import a_workload
from contracts.candidates import a_candidate, why
from kube_objects import a_deployment, a_pod

from equipoise.contracts.eviction.candidate import Candidate
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject


def revisions(
    kind: str, strategy: dict[str, Any], *, updated: int, label: str = "", group: str = "apps", **status: Any
) -> Candidate:
    """A pod of a workload with six pods, of which `updated` have the newest revision, as its API object is read."""
    document = {
        "metadata": {"name": "db", "generation": 38},
        "spec": {"replicas": 6, "updateStrategy": strategy},
        "status": {
            "observedGeneration": 38, "replicas": 6, "readyReplicas": 6, "availableReplicas": 6,
            "updatedReplicas": updated, "currentRevision": "db-697c", "updateRevision": "db-74c4",
        } | status,
    }  # fmt: skip
    owner = msgspec.convert(document, WorkloadObject, strict=False)
    pod = a_pod(metadata={"labels": {"controller-revision-hash": label} if label else {}})
    return a_candidate(pod, workload=a_workload("db", kind=kind, group=group), owners=(owner,))


STEADY: dict[str, Candidate] = {
    "OnDelete, all new": revisions("StatefulSet", {"type": "OnDelete"}, updated=6),
    "OnDelete, a pod that is new": revisions("StatefulSet", {"type": "OnDelete"}, updated=2, label="db-74c4"),
    "all new, one was not ready for long": revisions("StatefulSet", {"type": "RollingUpdate"}, updated=6),
    "a missing pod": revisions(
        "StatefulSet", {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}, updated=3, replicas=5
    ),
    "maxUnavailable": revisions(
        "StatefulSet", {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}}, updated=6
    ),
    "partition": revisions(
        "StatefulSet", {"type": "RollingUpdate", "rollingUpdate": {"partition": 4}}, updated=2, label="db-697c"
    ),
    "partition above the number of pods": revisions(
        "StatefulSet", {"type": "RollingUpdate", "rollingUpdate": {"partition": 999}}, updated=0
    ),
    "CloneSet with a partition": revisions("CloneSet", {"partition": 4}, updated=2, group="apps.kruise.io"),
    "CloneSet with a percentage": revisions("CloneSet", {"partition": "50%"}, updated=3, group="apps.kruise.io"),
    "CloneSet that keeps all but one": revisions("CloneSet", {"partition": "99%"}, updated=1, group="apps.kruise.io"),
    "CloneSet that reports what it expects": revisions(
        "CloneSet", {"partition": "10%"}, updated=2, group="apps.kruise.io", expectedUpdatedReplicas=2
    ),
    "paused CloneSet": revisions("CloneSet", {"paused": True}, updated=1, group="apps.kruise.io"),
    "CloneSet OnDelete with short hashes": revisions(
        "CloneSet", {"type": "OnDelete"}, updated=2, label="74c4", group="apps.kruise.io"
    ),
    "canary that waits": revisions(
        "Rollout", {}, updated=1, group="argoproj.io", currentRevision="", updateRevision="",
        pauseConditions=[{"reason": "CanaryPauseStep", "startTime": "2026-01-01T00:00:00Z"}], observedGeneration="38",
    ),
    "canary that failed": revisions(
        "Rollout", {}, updated=0, group="argoproj.io", currentRevision="", updateRevision="", abort=True
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STEADY)
def test_a_difference_of_revisions_that_remains_is_no_rollout(name: str) -> None:
    """An evicted pod is replaced by one of its own revision, and the controller updates no pod meanwhile."""
    assert why(STEADY[name]) == ""


@pytest.mark.parametrize("paused", ["Deployment", "Rollout"])
def test_a_workload_that_is_paused_is_not_rolling_out(paused: str) -> None:
    """Its ReplicaSets replace evicted pods, each with its own template."""
    owner = a_deployment(replicas=12, spec_replicas=10, updated_replicas=2, ready_replicas=12)
    spec = msgspec.structs.replace(owner.spec, paused=True)
    workload = a_workload(kind=paused, group="apps" if paused == "Deployment" else "argoproj.io")

    assert why(a_candidate(workload=workload, owners=(msgspec.structs.replace(owner, spec=spec),))) == ""
    assert "rolling out" in why(a_candidate(workload=workload, owners=(owner,)))


ROLLOUTS: dict[str, tuple[Candidate, str]] = {
    "OnDelete, a pod that is old": (
        revisions("StatefulSet", {"type": "OnDelete"}, updated=2, label="db-697c"), "would be of db-74c4"
    ),
    "OnDelete, a pod without the label": (
        revisions("StatefulSet", {"type": "OnDelete"}, updated=5), "would be of db-74c4"
    ),
    "some are old": (revisions("StatefulSet", {"type": "RollingUpdate"}, updated=5), "5 of 6 pods are new"),
    "no strategy": (revisions("StatefulSet", {}, updated=0), "0 of 6 pods are new"),
    "more are old than the partition keeps": (
        revisions("StatefulSet", {"type": "RollingUpdate", "rollingUpdate": {"partition": 3}}, updated=2),
        "rolling out db-74c4",
    ),
    "CloneSet": (revisions("CloneSet", {"partition": "50%"}, updated=2, group="apps.kruise.io"), "rolling out"),
    "CloneSet whose partition cannot be read": (
        revisions("CloneSet", {"partition": "half"}, updated=2, group="apps.kruise.io"), "rolling out"
    ),
    "CloneSet whose partition has too many digits": (
        revisions("CloneSet", {"partition": "9" * 5_000}, updated=2, group="apps.kruise.io"), "rolling out"
    ),
    "CloneSet whose percentage has too many digits": (
        revisions("CloneSet", {"partition": "9" * 400 + "%"}, updated=2, group="apps.kruise.io"), "rolling out"
    ),
    "Rollout": (
        revisions("Rollout", {}, updated=1, group="argoproj.io", currentRevision="", updateRevision=""), "rolling out"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROLLOUTS)
def test_a_rollout_in_progress_protects(name: str) -> None:
    """So does a pod that its eviction would update although its owner decides when."""
    candidate, expected = ROLLOUTS[name]
    assert expected in why(candidate)


def test_a_missing_replica_alone_is_no_rollout() -> None:
    """The limits count the missing pod of a Deployment."""
    owners = (a_deployment(replicas=10, ready_replicas=9, updated_replicas=9, available_replicas=9),)
    top = msgspec.structs.replace(owners[0], status=msgspec.structs.replace(owners[0].status, replicas=9))
    assert why(a_candidate(owners=(top,))) == ""
