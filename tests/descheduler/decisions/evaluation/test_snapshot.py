"""Pods, their owners and where they are."""

from collections import UserDict

import msgspec
from builders import NOW, a_workload
from descheduler.cluster import a_pod_object, a_workload_object, terminating
from kube_objects import owned_by

from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.descheduler.decisions.evaluation.snapshot import WatchedObjects
from equipoise.descheduler.state.moves.pending_moves import PodLocation

POD = a_pod_object("web-1", "node-a", NOW)
DEPLOYMENT = a_workload_object("web", 3)
REPLICA_SET = a_workload_object("web-1", 3)
OWNED = msgspec.structs.replace(
    REPLICA_SET, metadata=msgspec.structs.replace(REPLICA_SET.metadata, owner_references=owned_by("Deployment", "web"))
)


def watched(*pods: Pod, **workloads: WorkloadObject) -> WatchedObjects:
    kinds = {"replica_set": a_workload("web-1", kind="ReplicaSet"), "deployment": a_workload()}
    return WatchedObjects(
        nodes=[],
        pods=pods or [POD],
        namespaces={},
        workloads={kinds[kind]: value for kind, value in workloads.items()},
    )


def test_every_owner_of_a_pod_is_found() -> None:
    """The ReplicaSet in between is among the owners, the workload is the last."""
    known = watched(replica_set=OWNED, deployment=DEPLOYMENT)

    assert known.candidate(POD, known.workload_of(POD)).owners == (OWNED, DEPLOYMENT)
    assert watched(replica_set=OWNED).candidate(POD, a_workload()).owners == ()
    assert watched().candidate(POD, None).owners == ()


def test_pods_are_found_by_their_workload() -> None:
    """Of the workloads that are passed."""
    known = watched(replica_set=OWNED, deployment=DEPLOYMENT)

    assert known.pods_of([a_workload(), None, a_workload("other")]) == {a_workload(): [POD], a_workload("other"): []}


class _CountedReads(UserDict[Workload, WorkloadObject]):
    reads = 0

    def __getitem__(self, key: Workload) -> WorkloadObject:
        self.reads += 1
        return super().__getitem__(key)


def test_owners_that_pods_share_are_read_once() -> None:
    other = a_pod_object("web-2", "node-a", NOW)
    metadata = msgspec.structs.replace(other.metadata, owner_references=POD.metadata.owner_references)
    other = msgspec.structs.replace(other, metadata=metadata)
    known = watched(POD, other, replica_set=OWNED)
    workloads = _CountedReads(known.workloads)
    known = msgspec.structs.replace(known, workloads=workloads)

    assert known.pods_of([a_workload()]) == {a_workload(): [POD, other]}
    assert workloads.reads == 1


def test_terminating_pods_have_no_location() -> None:
    """Only those of the passed UIDs are returned."""
    known = watched(POD, terminating(a_pod_object("web-2", "node-a", NOW), NOW), replica_set=OWNED)

    assert known.locations({"uid-web-1", "uid-web-2"}) == {
        "uid-web-1": PodLocation(node="node-a", workload=a_workload())
    }
    assert known.locations(set()) == {}
