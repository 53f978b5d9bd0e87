"""Admission reviews of new pods, as the API server sends them."""

from typing import Any

from e2e.hinted_pods import pod_of


def a_review(namespace: str = "shop", *, at: str = "2026-11-27T09:00:00Z", **fields: Any) -> dict[str, Any]:
    """Of a pod of the Job `equipoise-hints-probe`, unless `fields` (of `pod_of`) have another owner."""
    pod = pod_of(namespace, **({"owner": "Job/equipoise-hints-probe"} | fields))
    entry = {"manager": "client", "operation": "Update", "apiVersion": "v1", "time": at, "fieldsType": "FieldsV1"}
    pod["metadata"]["managedFields"] = [entry | {"fieldsV1": {"f:spec": {}}}]
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "namespace": namespace,
            "operation": "CREATE",
            "userInfo": {"username": "system:serviceaccount:kube-system:job-controller"},
            "object": pod,
            "oldObject": None,
            "dryRun": True,
        },
    }
