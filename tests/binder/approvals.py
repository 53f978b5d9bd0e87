"""Approvals of evictions, as the descheduler writes them."""

import asyncio

import msgspec
from deployment.base import NAMESPACE

from equipoise.contracts.eviction.approval import APPROVAL_ROLE, approval_rules
from equipoise.testbed.cluster import Cluster

ACCOUNT = f"system:serviceaccount:{NAMESPACE}:equipoise-binder"
PATIENCE = 90.0


async def approve(cluster: Cluster, uid: str) -> None:
    """Approves the eviction, and waits until the API server applies it and the rights of k8s/surge."""
    approval = {"group": "equipoise.dev", "resource": "evictions", "name": uid, "verb": "approve"}
    detaching = {"resource": "pods", "verb": "patch"}
    async with cluster.api() as api, asyncio.timeout(PATIENCE):
        path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles/{APPROVAL_ROLE}"
        await api.patch(path, {"rules": msgspec.to_builtins(approval_rules([uid]))})
        for attributes, namespace in ((approval, NAMESPACE), (detaching, "shop")):
            spec = {"user": ACCOUNT, "resourceAttributes": {**attributes, "namespace": namespace}}
            allowed = False
            while not allowed:
                review = await api.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
                allowed = review["status"]["allowed"]
