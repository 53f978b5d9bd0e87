"""Checks that the API server admits only evictions that the descheduler has approved."""

from equipoise.cli.doctor.checks.permissions import deployed_with_accounts
from equipoise.cli.doctor.environment import UPGRADE, Environment, Finding
from equipoise.contracts.eviction.approval import APPROVAL_POLICY, APPROVAL_ROLE, NOT_APPROVED
from equipoise.runtime.kubernetes.client import (
    ADMISSION_POLICIES,
    ROLE_BINDINGS,
    ROLES,
    Kube,
    KubeError,
    NotFound,
    find,
)

SUBJECT = "approvals"


async def approvals(environment: Environment) -> list[Finding]:
    namespace = environment.settings.shared.kubernetes.namespace
    try:
        kube = environment.api()
        if not await deployed_with_accounts(kube, namespace):
            return [Finding("ok", SUBJECT, "not needed: `equipoise up` evicts as you, and no policy restricts you")]
        return [await _objects(kube, namespace), await _policy(kube)]
    except KubeError as error:
        return [Finding("unknown", SUBJECT, f"not checked: {error}")]


async def _objects(kube: Kube, namespace: str) -> Finding:
    subject = f"Role {APPROVAL_ROLE}"
    try:
        role = await kube.get(ROLES, APPROVAL_ROLE, namespace)
        await kube.get(ROLE_BINDINGS, APPROVAL_ROLE, namespace)
    except NotFound as error:
        message = f"no eviction can be approved, so none is executed: {error}"
        return Finding("error", subject, message, f"apply k8s/base/descheduler.yaml {UPGRADE}")
    approved = sum(len(rule.resource_names) for rule in role.rules or ())
    return Finding("ok", subject, f"written by the descheduler; approved evictions now: {approved}")


async def _policy(kube: Kube) -> Finding:
    subject, policy = f"policy {APPROVAL_POLICY}", await find(kube, ADMISSION_POLICIES, APPROVAL_POLICY)
    if policy is not None and NOT_APPROVED in (validation.message for validation in policy.spec.validations):
        return Finding("ok", subject, "requires that the descheduler has approved an eviction")
    message = "is missing or that of an earlier version: whoever has the token of the binder can evict every pod"
    return Finding("error", subject, message, f"apply k8s/base/fence.yaml {UPGRADE}")
