"""The trace of the demo as Kubernetes objects."""

from collections import Counter

from equipoise.cli.demo.example import example_trace
from equipoise.cli.demo.manifests import node_documents, workload_documents
from equipoise.contracts.kubernetes.quantity import parse_quantity


def test_the_usage_of_fake_pods_cannot_exceed_the_capacity_of_a_node() -> None:
    """Fake pods are not throttled: capacity is twice the allocatable CPU, so that their usage stays valid."""
    for node in node_documents(example_trace()):
        allocatable, capacity = node["status"]["allocatable"], node["status"]["capacity"]
        assert parse_quantity(capacity["cpu"]) == 2 * parse_quantity(allocatable["cpu"])
        assert capacity["memory"] == allocatable["memory"]


def test_every_workload_is_a_deployment_with_the_replicas_of_the_trace() -> None:
    """A quarter of them have a PodDisruptionBudget."""
    trace = example_trace()
    documents = workload_documents(trace, epoch=0, step_seconds=4)
    deployments = [document for document in documents if document["kind"] == "Deployment"]

    assert [workload.name for workload in trace.workloads] == [each["metadata"]["name"] for each in deployments]
    assert [workload.namespace for workload in trace.workloads] == [
        each["metadata"]["namespace"] for each in deployments
    ]
    assert len(trace.pods) == sum(each["spec"]["replicas"] for each in deployments)
    assert Counter(each["kind"] for each in documents)["PodDisruptionBudget"] == len(trace.workloads) / 4
