"""The permissions of the services at the API server, checked with access reviews."""

import asyncio
from collections.abc import Mapping, Sequence

from equipoise.cli.doctor.checks.required_permissions import EVICT, REQUIRED, ApiPermission, shard_leases
from equipoise.cli.doctor.environment import Environment, Finding
from equipoise.cli.service_settings import AllSettings
from equipoise.contracts.bus.subjects import SERVICES
from equipoise.contracts.kubernetes.objects import AccessReview, AccessReviewSpec, ResourceAttributes
from equipoise.runtime.kubernetes.client import (
    ACCESS_REVIEWS,
    NAMESPACES,
    SELF_ACCESS_REVIEWS,
    SERVICE_ACCOUNTS,
    Forbidden,
    Kube,
    KubeError,
    NotFound,
)

MAX_CONCURRENT_REVIEWS = 8

MAX_NAMESPACES = 100
"""Namespaces in which the permission to evict is checked, if it is not granted in all."""

SUBJECT = "permissions"
CURRENT_USER = "you"


async def permissions(environment: Environment) -> list[Finding]:
    namespace = environment.settings.shared.kubernetes.namespace
    try:
        kube = environment.api()
        deployed = await _deployed(kube, namespace)
        reviews = _AccessReviews(kube, namespace, deployed=deployed)
        try:
            findings = await _findings(reviews, environment.settings)
        except Forbidden:
            message = "you may not review the permissions of the services' ServiceAccounts"
            fix = "use a user who may create subjectaccessreviews, for example a cluster administrator"
            return [Finding(state="unknown", subject=SUBJECT, message=message, fix=fix)]
        if deployed:
            return findings
        message = f"no ServiceAccount equipoise-collector in {namespace}: checked for you, as `equipoise up` uses them"
        return [Finding(state="ok", subject=SUBJECT, message=message), *findings]
    except KubeError as error:
        return [Finding(state="unknown", subject=SUBJECT, message=f"not checked: {error}")]


async def _deployed(kube: Kube, namespace: str) -> bool:
    """The services have ServiceAccounts; assumed if these may not be read."""
    try:
        await kube.get(SERVICE_ACCOUNTS, "equipoise-collector", namespace)
    except NotFound:
        return False
    except Forbidden:
        return True
    return True


class _AccessReviews:
    """Access reviews of the ServiceAccounts, or of the current user."""

    def __init__(self, kube: Kube, namespace: str, *, deployed: bool) -> None:
        self.kube = kube
        self.namespace = namespace
        self._deployed = deployed
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_REVIEWS)

    def account(self, service: str) -> str:
        return f"ServiceAccount equipoise-{service}" if self._deployed else CURRENT_USER

    async def allowed(self, permission: ApiPermission, namespace: str = "") -> bool:
        """In this namespace; by default where it is required. Raises KubeError."""
        attributes = ResourceAttributes(
            verb=permission.verb,
            group=permission.group,
            resource=permission.resource,
            subresource=permission.subresource,
            name=permission.name,
            namespace=namespace or (self.namespace if permission.own_namespace else ""),
        )
        spec = AccessReviewSpec(resource_attributes=attributes)
        if self._deployed:
            account = f"system:serviceaccount:{self.namespace}:equipoise-{permission.service}"
            accounts = "system:serviceaccounts"
            groups = [accounts, f"{accounts}:{self.namespace}", "system:authenticated"]
            spec = AccessReviewSpec(resource_attributes=attributes, user=account, groups=groups)
        resource = ACCESS_REVIEWS if self._deployed else SELF_ACCESS_REVIEWS
        async with self._slots:
            return (await self.kube.create(resource, AccessReview(spec=spec))).status.allowed


async def _findings(reviews: _AccessReviews, settings: AllSettings) -> list[Finding]:
    required = [permission for permission in REQUIRED if is_required(permission, settings)]
    results = await asyncio.gather(*(reviews.allowed(permission) for permission in required))
    allowed = dict(zip(required, results, strict=True))
    findings = [
        service_finding(service, reviews.account(service), allowed) for service in SERVICES if service != "scorer"
    ]
    return [*findings, await _eviction_finding(reviews, settings)]


def is_required(permission: ApiPermission, settings: AllSettings) -> bool:
    """By the configuration; whether the cluster has workloads of a kind is unknown."""
    match permission.when:
        case "persistentVolumes":
            return settings.shared.protection.persistent_volumes
        case "metricsServer":
            return settings.collector.source == "metrics-server"
        case "shards":
            return permission.name in shard_leases(settings.collector.shards)
    return True


def service_finding(service: str, account: str, allowed: Mapping[ApiPermission, bool]) -> Finding:
    """The missing permissions of a service."""
    subject = f"{service} ({account})"
    missing = [permission for permission, yes in allowed.items() if permission.service == service and not yes]
    required = [str(permission) for permission in missing if permission.when != "workloads"]
    if required:
        fix = f"apply k8s/base/{service}.yaml" if account != CURRENT_USER else "use a context whose user may"
        return Finding(state="error", subject=subject, message=f"may not {', '.join(required)}", fix=fix)
    if missing:
        message = f"may not {', '.join(map(str, missing))}: workloads of these kinds are not moved"
        fix = "apply k8s/base if the cluster has such workloads"
        return Finding(state="warning", subject=subject, message=message, fix=fix)
    count = sum(permission.service == service for permission in allowed)
    return Finding(state="ok", subject=subject, message=f"has the {count} permissions it needs")


async def _eviction_finding(reviews: _AccessReviews, settings: AllSettings) -> Finding:
    account, evict = reviews.account("binder"), settings.binder.evict
    if await reviews.allowed(EVICT):
        return eviction_finding(account, everywhere=True, evict=evict)
    shared = settings.shared
    names = [each.metadata.name for each in await reviews.kube.list(NAMESPACES)]
    configured = [name for name in names if shared.namespaces.allow(name, shared.kubernetes.namespace)]
    checked = configured[:MAX_NAMESPACES]
    results = await asyncio.gather(*(reviews.allowed(EVICT, name) for name in checked))
    granted = [name for name, yes in zip(checked, results, strict=True) if yes]
    return eviction_finding(account, everywhere=False, evict=evict, granted=granted, configured=configured)


def eviction_finding(
    account: str, *, everywhere: bool, evict: bool, granted: Sequence[str] = (), configured: Sequence[str] = ()
) -> Finding:
    """The permission to evict against `binder.evict`. `granted` and `configured`: namespaces."""
    subject = f"evictions ({account})"
    if everywhere or (configured and len(granted) == len(configured)):
        message = "may evict" + ("" if evict else "; binder.evict is false, so every eviction is a dry run")
        return Finding(state="ok", subject=subject, message=message)
    if granted:
        message = f"may evict in {', '.join(granted)}, and not in other namespaces"
        return Finding(state="ok", subject=subject, message=message)
    if not evict:
        message = "may not evict (overlay observe): every eviction is a dry run"
        return Finding(state="ok", subject=subject, message=message)
    return Finding(
        state="error",
        subject=subject,
        message="may not evict, and binder.evict is true",
        fix="apply k8s/base, or k8s/overlays/namespaced with eviction.yaml in each namespace",
    )
