"""The queue of batch pods of the demo."""

from typing import Any

from equipoise.cli.demo.colocation.queue import PODS_PER_NODE, queue_documents
from equipoise.contracts.load.pod_priority import priority_class_of

NODES = 10


def jobs() -> list[dict[str, Any]]:
    return [each for each in queue_documents(NODES, 96.0) if each["kind"] == "Job"]


def test_more_pods_wait_than_run() -> None:
    """Every pod that finishes is replaced."""
    assert sum(job["spec"]["parallelism"] for job in jobs()) >= NODES * PODS_PER_NODE
    assert all(job["spec"]["completions"] > 100_000 for job in jobs())


def test_a_pod_requests_batch_resources_only() -> None:
    """In milli-cores and bytes; the API server accepts whole numbers only."""
    for job in jobs():
        [container] = job["spec"]["template"]["spec"]["containers"]
        assert container["resources"]["requests"] == {
            "kubernetes.io/batch-cpu": "500",
            "kubernetes.io/batch-memory": str(2**30),
        }
        assert container["resources"]["limits"] == container["resources"]["requests"]


def test_a_pod_is_of_the_band_batch_and_preempts_no_other() -> None:
    """By its priority and its label: pods of the demo without a class have a lower priority."""
    [priority] = [each for each in queue_documents(NODES, 96.0) if each["kind"] == "PriorityClass"]
    assert priority["preemptionPolicy"] == "Never"
    assert priority_class_of({}, priority["value"], "Burstable") == "batch"
    for job in jobs():
        template = job["spec"]["template"]
        assert template["spec"]["priorityClassName"] == priority["metadata"]["name"]
        assert template["metadata"]["labels"]["equipoise.dev/qos"] == "BE"


def test_a_pod_runs_for_its_lifetime() -> None:
    """In real time, and uses what it requests."""
    for job in jobs():
        annotations = job["spec"]["template"]["metadata"]["annotations"]
        assert annotations["pod-complete.stage.kwok.x-k8s.io/delay"] == "96000ms"
        assert annotations["kwok.x-k8s.io/usage-cpu"] == "500m"
