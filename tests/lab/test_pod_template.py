"""Pods as kube-scheduler considers them."""

import pytest

from equipoise.lab.model.stock.pod_template import MIB, PodTemplate, pod_template
from equipoise.lab.model.trace import TraceWorkload


def test_only_missing_requests_have_defaults() -> None:
    """A request of 0 is not missing. Neither occupies resources."""
    missing, zero = PodTemplate(workload=0), PodTemplate(workload=0, cpu_milli=0, memory=0)

    assert [0, 0, 1] == missing.requests.tolist() == zero.requests.tolist()
    assert [100, 200 * MIB] == missing.nonzero_requests.tolist()
    assert [0, 0] == zero.nonzero_requests.tolist()


def test_a_request_of_0_in_a_trace_is_missing() -> None:
    template = pod_template(TraceWorkload(name="web", request_memory_mib=64), 3, revision=2)

    assert PodTemplate(workload=3, memory=64 * MIB, revision=2) == template


@pytest.mark.parametrize(
    ("kind", "spread", "revision"), [("Deployment", True, 2), ("StatefulSet", True, 0), ("DaemonSet", False, 0)]
)
def test_pods_of_replica_sets_and_stateful_sets_are_spread(kind: str, spread: bool, revision: int) -> None:
    """Only a rollout of a Deployment creates pods that are not siblings of the earlier ones."""
    template = pod_template(TraceWorkload(name="web", kind=kind), 0, revision=2)

    assert (spread, revision) == (template.spread, template.revision)
