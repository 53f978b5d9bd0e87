"""The workloads and the figures of a demo with moves without a gap."""

from collections import Counter

import numpy as np

from equipoise.cli.demo.example import example_trace
from equipoise.cli.demo.manifests import workload_documents
from equipoise.cli.demo.surge.figures import SurgeResult, surge_sentence
from equipoise.cli.demo.surge.workloads import service_documents, wanted_endpoints, with_single_replicas


def test_many_pods_become_single_replicas_with_the_same_load() -> None:
    """The pods, their order, and what each of them uses remain."""
    example = example_trace()
    trace = with_single_replicas(example)
    before = example.cpu_milli[[pod.workload for pod in example.pods]]
    after = trace.cpu_milli[[pod.workload for pod in trace.pods]]

    assert Counter(trace.replicas().tolist())[1] >= 30
    assert 1 not in example.replicas()
    assert [pod.name for pod in trace.pods] == [pod.name for pod in example.pods]
    assert np.array_equal(before, after)
    assert len({workload.name for workload in trace.workloads}) == len(trace.workloads)


def test_budgets_of_single_replicas_allow_no_eviction() -> None:
    """Without a move without a gap, these pods could not leave a hot node at all."""
    trace = with_single_replicas(example_trace())
    documents = workload_documents(trace, epoch=0, step_seconds=4, max_unavailable=0)
    blocked = {each["metadata"]["name"] for each in documents if each["kind"] == "PodDisruptionBudget"}
    single = {
        each["metadata"]["name"] for each in documents if each["kind"] == "Deployment" and each["spec"]["replicas"] == 1
    }

    assert {0} == {each["spec"]["maxUnavailable"] for each in documents if each["kind"] == "PodDisruptionBudget"}
    assert len(blocked & single) >= 5


def test_each_workload_has_a_service_that_selects_its_pods() -> None:
    """More than addresses of Services exist: they are headless."""
    trace = with_single_replicas(example_trace(nodes=6))
    wanted = wanted_endpoints(trace)
    services = service_documents(wanted)
    labels = {
        f"{each['metadata']['namespace']}/{each['metadata']['name']}": each["spec"]["template"]["metadata"]["labels"]
        for each in workload_documents(trace, epoch=0, step_seconds=4)
        if each["kind"] == "Deployment"
    }

    assert wanted.keys() == labels.keys()
    assert sum(wanted.values()) == len(trace.pods)
    for service in services:
        name = f"{service['metadata']['namespace']}/{service['metadata']['name']}"
        assert service["spec"]["selector"] == labels[name]
        assert service["spec"]["clusterIP"] == "None"


def test_the_sentence_states_moves_shortages_and_left_overs() -> None:
    result = SurgeResult(
        mode="always",
        moved=53,
        without_gap=52,
        services=80,
        shortages=1,
        seconds_with_fewer_ready=0.25,
        detached_left_over=0,
    )

    assert surge_sentence(result) == (
        "53 pods moved, 52 of them without a gap: 0.25 s with fewer ready endpoints than replicas, in all 80 Services, "
        "by the EndpointSlices that the API server has logged; 0 detached pods left over"
    )
