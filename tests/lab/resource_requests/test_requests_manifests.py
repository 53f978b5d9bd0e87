"""VerticalPodAutoscalers and patches with the proposed requests."""

from typing import Any

from equipoise.lab.model.resource_requests import ResourceRequests
from equipoise.lab.resource_requests.proposals import RequestsProposal
from equipoise.lab.resource_requests.requests_manifests import patches, vertical_pod_autoscalers, without_manifest


def a_proposal(**fields: Any) -> RequestsProposal:
    defaults: dict[str, Any] = {
        "namespace": "shop",
        "kind": "Deployment",
        "name": "web",
        "pods": 2,
        "containers": ("main",),
        "present": ResourceRequests(cpu_milli=1_000, memory_mib=2_048),
        "proposed": ResourceRequests(cpu_milli=400, memory_mib=1_024),
    }
    return RequestsProposal(**(defaults | fields))


def test_a_vertical_pod_autoscaler_never_recommends_less_than_the_proposal_and_leaves_limits() -> None:
    (found,) = vertical_pod_autoscalers([a_proposal()], "InPlaceOrRecreate")
    assert found == {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "updatePolicy": {"updateMode": "InPlaceOrRecreate"},
            "resourcePolicy": {
                "containerPolicies": [
                    {
                        "containerName": "main",
                        "controlledValues": "RequestsOnly",
                        "minAllowed": {"cpu": "400m", "memory": "1024Mi"},
                    }
                ]
            },
        },
    }


def test_a_patch_changes_the_requests_of_the_container_in_the_template() -> None:
    container = {"name": "main", "resources": {"requests": {"cpu": "400m", "memory": "1024Mi"}}}
    template = {"template": {"spec": {"containers": [container]}}}
    deployment, cron_job = patches([a_proposal(), a_proposal(kind="CronJob")])
    assert deployment["spec"] == template
    assert (cron_job["apiVersion"], cron_job["spec"]) == ("batch/v1", {"jobTemplate": {"spec": template}})


def test_there_is_no_manifest_for_what_does_not_change() -> None:
    same = a_proposal(proposed=a_proposal().present)
    assert (patches([same]), vertical_pod_autoscalers([same], "Off"), without_manifest([same])) == ([], [], {})


def test_changed_workloads_without_a_manifest_are_named_with_the_reason() -> None:
    left_out = [a_proposal(containers=()), a_proposal(containers=("main", "proxy")), a_proposal(kind="Rollout")]
    assert patches(left_out) == []
    assert [[each] for each in left_out] == list(without_manifest(left_out).values())


def test_two_workloads_of_the_same_name_have_two_vertical_pod_autoscalers() -> None:
    found = vertical_pod_autoscalers(
        [a_proposal(), a_proposal(kind="StatefulSet"), a_proposal(namespace="other")], "Off"
    )
    assert [each["metadata"]["name"] for each in found] == ["web-deployment", "web-statefulset", "web"]
