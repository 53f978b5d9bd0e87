"""What is known around a pod, and what of it would stop an eviction."""

from typing import Any

import msgspec
import pytest
from builders import NOW, a_workload
from descheduler.cluster import a_pod_object, a_workload_object
from kube_objects import owned_by

from equipoise.contracts.eviction.protection import Candidate
from equipoise.contracts.kubernetes import objects
from equipoise.contracts.kubernetes.objects import ObjectMeta, PodDisruptionBudget
from equipoise.descheduler.decisions.evaluation.annotation_check import misread_annotations
from equipoise.descheduler.decisions.evaluation.cluster_builder import WatchedObjects
from equipoise.descheduler.decisions.evaluation.obstacles import obstacle

POD = a_pod_object("web-1", "node-a", NOW)
REPLICA_SET = a_workload_object("web-1", 3)
DEPLOYMENT = a_workload_object("web", 3)


def a_budget(allowed: int, **metadata: Any) -> PodDisruptionBudget:
    status = objects.PodDisruptionBudgetStatus(disruptions_allowed=allowed)
    return PodDisruptionBudget(metadata=ObjectMeta(name="budget", **metadata), status=status)


def why(ready: int = 3, *budgets: PodDisruptionBudget, volumes_known: bool = True) -> str:
    status = msgspec.structs.replace(DEPLOYMENT.status, ready_replicas=ready)
    owner = msgspec.structs.replace(DEPLOYMENT, status=status)
    candidate = Candidate(pod=POD, namespace=None, workload=a_workload(), owners=(owner,))
    return obstacle(candidate, budgets, volumes_known=volumes_known)


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        (why(), ""),
        (why(3, a_budget(1)), ""),
        (why(2), "1 of 3 replicas of Deployment/shop/web are not ready"),
        (why(3, a_budget(0)), "PodDisruptionBudget budget allows no disruption"),
        (why(3, a_budget(1), a_budget(1)), "more than one PodDisruptionBudget"),
        (why(3, a_budget(1, generation=2)), "PodDisruptionBudget budget was changed"),
        (why(volumes_known=False), "it is not known where its volumes can be reached"),
    ],
)
def test_obstacles(told: str, reason: str) -> None:
    """A missing replica, a budget with nothing left and a volume that may be anywhere stop an eviction."""
    assert told.startswith(reason)
    assert bool(told) == bool(reason)


def watched(**workloads: objects.WorkloadObject) -> WatchedObjects:
    kinds = {"replica_set": a_workload("web-1", kind="ReplicaSet"), "deployment": a_workload()}
    return WatchedObjects(
        nodes=[], pods=[POD], namespaces={}, workloads={kinds[kind]: value for kind, value in workloads.items()}
    )


def test_everything_that_owns_a_pod_has_a_say() -> None:
    """The ReplicaSet between is among the owners, the workload comes last."""
    owned = msgspec.structs.replace(
        REPLICA_SET,
        metadata=msgspec.structs.replace(REPLICA_SET.metadata, owner_references=owned_by("Deployment", "web")),
    )
    known = watched(replica_set=owned, deployment=DEPLOYMENT)

    assert known.candidate(POD, known.workload_of(POD)).owners == (owned, DEPLOYMENT)
    assert watched(replica_set=owned).candidate(POD, a_workload()).owners == ()
    assert watched().candidate(POD, None).owners == ()


def test_a_misread_annotation_is_told() -> None:
    """Somebody who wrote "true" to allow evictions learns that it protects."""

    def annotated(value: str) -> objects.WorkloadObject:
        metadata = msgspec.structs.replace(DEPLOYMENT.metadata, annotations={"equipoise.dev/evict": value})
        return msgspec.structs.replace(DEPLOYMENT, metadata=metadata)

    assert misread_annotations(watched(deployment=annotated("false"))) == ""
    assert misread_annotations(watched(deployment=annotated("true"))).endswith('workload shop/web ("true")')
