"""The permissions of the services at the API server, checked with access reviews."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from equipoise.cli.doctor.colocation_parts import InstalledParts, installed_parts
from equipoise.cli.doctor.environment import UPGRADE, Environment, Finding
from equipoise.cli.effective.trust import permitted_moves
from equipoise.cli.service_settings import AllSettings, all_settings
from equipoise.collector.decisions.sharding import lease_name
from equipoise.collector.settings import MAX_SHARDS, WHOLE_CLUSTER
from equipoise.contracts.bus.subjects import SERVICES, ServiceName
from equipoise.contracts.configuration.moves import deletion_costs
from equipoise.contracts.eviction.approval import APPROVAL_ROLE
from equipoise.contracts.hints.policy import INSTALL, NAME
from equipoise.contracts.kubernetes.mutating_policy import API_GROUP
from equipoise.contracts.kubernetes.objects.access import (
    AccessReview,
    AccessReviewSpec,
    ResourceAttributes,
    account_review,
)
from equipoise.runtime.configuration import ConfigurationError, read_document
from equipoise.runtime.kubernetes.client import (
    ACCESS_REVIEWS,
    CONFIG_MAPS,
    HINTS,
    NAMESPACES,
    SELF_ACCESS_REVIEWS,
    SERVICE_ACCOUNTS,
    Forbidden,
    Kube,
    KubeError,
    find,
)

Account = Literal[ServiceName, "agent", "hints-webhook"]
"""The agent is no service: it does not use the bus, and has a namespace of its own."""

When = Literal[
    "",
    "persistentVolumes",
    "metricsServer",
    "shards",
    "workloads",
    "approvals",
    "hints",
    "webhook",
    "consolidation",
    "deletionCosts",
    "surge",
    "detach",
]


class ApiPermission(msgspec.Struct, frozen=True, kw_only=True):
    """One verb on one resource."""

    service: Account
    verb: str
    group: str = ""
    resource: str
    subresource: str = ""
    name: str = ""
    """Name of the object; empty: all objects."""

    own_namespace: bool = False
    """Whether it is required only in the namespace of Equipoise; otherwise in every namespace."""

    when: When = ""
    """The condition under which it is required; empty: always.

    - persistentVolumes: `protection.persistentVolumes` is true.
    - metricsServer: `collector.source` is metrics-server.
    - shards: `collector.shards` is more than one, and the Lease is that of one of these shards.
    - workloads: the cluster has workloads of this kind.
    - approvals: the services have ServiceAccounts.
    - hints: `placement.hints` is true.
    - webhook: `placement.hints` is true, and `annotator.hints.admission` is webhook.
    - consolidation: `descheduler.consolidation.mode` is act, and the services have ServiceAccounts.
    - deletionCosts: `annotator.deletionCosts` is not none, also by `moves.level`.
    - surge: `surge.mode` is not none, also by `moves.level`.
    - detach: the same, and `binder.evict` is true. With `namespaces.include`, only in these.
    """

    def __str__(self) -> str:
        """`list replicasets.apps`."""
        resource = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        return " ".join(filter(None, (self.verb, f"{resource}.{self.group}".rstrip("."), self.name)))


def _permissions(
    service: Account,
    verbs: str,
    group: str,
    resources: str,
    *,
    name: str = "",
    own_namespace: bool = False,
    when: When = "",
) -> Iterable[ApiPermission]:
    for resource in resources.split():
        plural, _, subresource = resource.partition("/")
        for verb in verbs.split():
            yield ApiPermission(
                service=service, verb=verb, group=group, resource=plural, subresource=subresource, name=name,
                own_namespace=own_namespace, when=when,
            )  # fmt: skip


LEASES = "coordination.k8s.io"
RBAC = "rbac.authorization.k8s.io"


def shard_leases(shards: int) -> list[str]:
    """The names of the Leases of this number of shards; none for one shard, whose Lease has another name."""
    return [lease_name(WHOLE_CLUSTER, WHOLE_CLUSTER, shard, shards) for shard in range(shards)] if shards > 1 else []


REQUIRED: Sequence[ApiPermission] = (
    *_permissions("collector", "list watch", "", "nodes pods"),
    *_permissions("collector", "list watch", "apps", "replicasets"),
    *_permissions("collector", "list watch", "batch", "jobs"),
    *_permissions("collector", "list", "apps", "deployments statefulsets daemonsets"),
    *_permissions("collector", "list", "apps.kruise.io", "clonesets", when="workloads"),
    *_permissions("collector", "list", "argoproj.io", "rollouts", when="workloads"),
    *_permissions("collector", "create", LEASES, "leases", own_namespace=True),
    *_permissions("collector", "get update", LEASES, "leases", name="equipoise-collector", own_namespace=True),
    *_permissions("collector", "list", "metrics.k8s.io", "nodes pods", when="metricsServer"),
    *(
        permission
        for name in shard_leases(MAX_SHARDS)
        for permission in _permissions(
            "collector", "get update", LEASES, "leases", name=name, own_namespace=True, when="shards"
        )
    ),
    *_permissions("annotator", "get patch", "", "nodes replicationcontrollers"),
    *_permissions("annotator", "get patch", "apps", "deployments statefulsets daemonsets replicasets"),
    *_permissions("annotator", "get patch", "batch", "cronjobs jobs"),
    *_permissions("annotator", "get patch", "apps.kruise.io", "clonesets", when="workloads"),
    *_permissions("annotator", "get patch", "argoproj.io", "rollouts", when="workloads"),
    *_permissions("annotator", "create list update", LEASES, "leases", own_namespace=True),
    *_permissions("annotator", "list", LEASES, "leases", name="equipoise-descheduler"),
    *_permissions("annotator", "get create update", HINTS.group, HINTS.plural, when="hints"),
    *_permissions("annotator", "get", API_GROUP, "mutatingadmissionpolicies", name=NAME, when="hints"),
    *_permissions("annotator", "get update", API_GROUP, "mutatingwebhookconfigurations", name=NAME, when="webhook"),
    *_permissions("annotator", "create", "", "pods", own_namespace=True, when="webhook"),
    *_permissions("annotator", "get patch", "", "pods", when="deletionCosts"),
    *_permissions("annotator", "taint", "equipoise.dev", "nodes", when="consolidation"),
    *_permissions("hints-webhook", "list watch", HINTS.group, HINTS.plural, when="webhook"),
    *_permissions("descheduler", "list watch", "", "nodes pods namespaces replicationcontrollers"),
    *_permissions("descheduler", "list watch", "apps", "deployments replicasets statefulsets"),
    *_permissions("descheduler", "list watch", "policy", "poddisruptionbudgets"),
    *_permissions(
        "descheduler", "list watch", "", "persistentvolumeclaims persistentvolumes", when="persistentVolumes"
    ),
    *_permissions("descheduler", "list watch", "apps.kruise.io", "clonesets", when="workloads"),
    *_permissions("descheduler", "list watch", "argoproj.io", "rollouts", when="workloads"),
    *_permissions("descheduler", "create", LEASES, "leases", own_namespace=True),
    *_permissions("descheduler", "get update", LEASES, "leases", name="equipoise-descheduler", own_namespace=True),
    *_permissions("descheduler", "get update", RBAC, "roles", name=APPROVAL_ROLE, own_namespace=True, when="approvals"),
    *_permissions("descheduler", "approve", "equipoise.dev", "evictions", own_namespace=True, when="approvals"),
    *_permissions("binder", "get", "", "pods namespaces replicationcontrollers"),
    *_permissions("binder", "get", "apps", "deployments replicasets statefulsets"),
    *_permissions("binder", "get", "apps.kruise.io", "clonesets", when="workloads"),
    *_permissions("binder", "get", "argoproj.io", "rollouts", when="workloads"),
    *_permissions("binder", "get", "", "persistentvolumeclaims persistentvolumes", when="persistentVolumes"),
    *_permissions("binder", "create", "events.k8s.io", "events"),
    *_permissions("binder", "get update", "", "configmaps", name="equipoise-ledger", own_namespace=True),
    *_permissions("binder", "get", LEASES, "leases", name="equipoise-descheduler", own_namespace=True),
    *_permissions("binder", "list", LEASES, "leases", name="equipoise-descheduler"),
    *_permissions("binder", "list", "", "pods services resourcequotas", when="surge"),
    *_permissions("binder", "get", "", "nodes", when="surge"),
    *_permissions("binder", "list", "policy", "poddisruptionbudgets", when="surge"),
    *_permissions("binder", "patch", "", "pods", when="detach"),
    *_permissions("reclaimer", "patch", "", "nodes/status"),
    *_permissions("reclaimer", "create", LEASES, "leases", own_namespace=True),
    *_permissions("reclaimer", "get update", LEASES, "leases", name="equipoise-reclaimer", own_namespace=True),
    *_permissions("reclaimer", "list", LEASES, "leases", name="equipoise-descheduler"),
    *_permissions("agent", "list watch", "", "pods"),
)
"""The permissions of the services; those of the reclaimer and of the agent only where these are installed."""

EVICT = ApiPermission(service="binder", verb="create", resource="pods", subresource="eviction")
"""The binder's permission to evict. It is not in REQUIRED, because overlays remove it, or grant it per namespace."""

AGENT_EVICT = ApiPermission(service="agent", verb="create", resource="pods", subresource="eviction")
"""The agent's permission to evict, which only k8s/colocation/evictions grants."""


MAX_CONCURRENT_REVIEWS = 8

MAX_NAMESPACES = 100
"""Namespaces in which the permission to evict is checked, if it is not granted in all."""

SUBJECT = "permissions"
CURRENT_USER = "you"


async def permissions(environment: Environment) -> list[Finding]:
    namespace = environment.settings.shared.kubernetes.namespace
    try:
        kube = environment.api()
        deployed = await deployed_with_accounts(kube, namespace)
        parts, unknown = await _co_location(environment, kube, deployed=deployed)
        reviews = _AccessReviews(kube, namespace, deployed=deployed, agents=parts.agents)
        try:
            findings = [*await _findings(reviews, environment.settings, parts), *unknown]
        except Forbidden:
            message = "you may not review the permissions of the services' ServiceAccounts"
            fix = "use a user who may create subjectaccessreviews, for example a cluster administrator"
            return [Finding("unknown", SUBJECT, message, fix)]
        if deployed:
            return findings
        message = f"no ServiceAccount equipoise-collector in {namespace}: checked for you, as `equipoise up` uses them"
        return [Finding("ok", SUBJECT, message), *findings]
    except KubeError as error:
        return [Finding("unknown", SUBJECT, f"not checked: {error}")]


async def deployed_with_accounts(kube: Kube, namespace: str) -> bool:
    """Whether the services have ServiceAccounts. True if the user may not read ServiceAccounts."""
    try:
        return await find(kube, SERVICE_ACCOUNTS, "equipoise-collector", namespace) is not None
    except Forbidden:
        return True


async def _co_location(environment: Environment, kube: Kube, *, deployed: bool) -> tuple[InstalledParts, list[Finding]]:
    """The installed parts of co-location, and a finding if they are unknown.

    Without ServiceAccounts the configuration states whether the reclaimer is used.
    """
    if not deployed:
        return InstalledParts(reclaimer=environment.settings.reclaimer.enabled), []
    try:
        return await installed_parts(kube, environment.settings.shared.kubernetes.namespace), []
    except Forbidden as error:
        message = f"unknown whether the reclaimer and the agent are installed: {error.message}"
        fix = "use a user who may get and list serviceaccounts"
        return InstalledParts(), [Finding("unknown", "co-location", message, fix)]


class _AccessReviews:
    """Access reviews of the ServiceAccounts, or of the current user."""

    def __init__(self, kube: Kube, namespace: str, *, deployed: bool, agents: str) -> None:
        """`agents`: the namespace of the agents."""
        self.kube = kube
        self.namespace = namespace
        self.deployed = deployed
        self.agents = agents
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_REVIEWS)

    def account(self, service: str) -> str:
        return f"ServiceAccount equipoise-{service}" if self.deployed else CURRENT_USER

    async def allowed(self, permission: ApiPermission, namespace: str = "") -> bool:
        """Whether the permission is granted in this namespace; by default, in the namespaces where it is required.

        Raises KubeError.
        """
        attributes = ResourceAttributes(
            verb=permission.verb,
            group=permission.group,
            resource=permission.resource,
            subresource=permission.subresource,
            name=permission.name,
            namespace=namespace or (self.namespace if permission.own_namespace else ""),
        )
        spec = AccessReviewSpec(resource_attributes=attributes)
        if self.deployed:
            account_namespace = self.agents if permission.service == "agent" else self.namespace
            spec = account_review(account_namespace, f"equipoise-{permission.service}", attributes)
        resource = ACCESS_REVIEWS if self.deployed else SELF_ACCESS_REVIEWS
        async with self._slots:
            return (await self.kube.create(resource, AccessReview(spec=spec))).status.allowed


async def _findings(reviews: _AccessReviews, settings: AllSettings, parts: InstalledParts) -> list[Finding]:
    accounts: list[Account] = [service for service in SERVICES if service != "scorer"]
    accounts += ["reclaimer"] if parts.reclaimer else []
    accounts += ["agent"] if parts.agents else []
    accounts += ["hints-webhook"] if _by_webhook(settings) else []
    required = [
        permission
        for permission in REQUIRED
        if permission.service in accounts and is_required(permission, settings, deployed=reviews.deployed)
    ]
    results = await asyncio.gather(*(_is_granted(reviews, permission, settings) for permission in required))
    allowed = dict(zip(required, results, strict=True))
    findings = [service_finding(account, reviews.account(account), allowed) for account in accounts]
    evictions, may_evict = await _eviction_finding(reviews, settings)
    missing = {permission.when for permission, granted in allowed.items() if not granted}
    moves = permitted_moves(settings, may_evict=may_evict, missing=missing)
    findings += [
        evictions,
        Finding("ok", "level of moves", str(moves)),
    ]
    if parts.agents:
        evict = await _agents_evict(reviews.kube, parts.agents)
        findings.append(agent_eviction_finding(await reviews.allowed(AGENT_EVICT), evict))
    return findings


def is_required(permission: ApiPermission, settings: AllSettings, *, deployed: bool) -> bool:
    """Whether the configuration requires the permission. Permissions for kinds of workloads are always required here,
    because it is unknown whether the cluster has such workloads.

    `deployed`: the services have ServiceAccounts.
    """
    match permission.when:
        case "persistentVolumes":
            return settings.shared.protection.persistent_volumes
        case "metricsServer":
            return settings.collector.source == "metrics-server"
        case "shards":
            return permission.name in shard_leases(settings.collector.shards)
        case "approvals":
            return deployed
        case "consolidation":
            return deployed and settings.descheduler.consolidation.mode == "act"
        case "deletionCosts":
            return deletion_costs(settings.shared.moves.level, settings.annotator.deletion_costs) != "none"
        case "surge":
            return settings.shared.rules.surge != "none"
        case "detach":
            return settings.shared.rules.surge != "none" and settings.binder.evict
        case "hints":
            return settings.shared.placement.hints
        case "webhook":
            return _by_webhook(settings)
    return True


def _by_webhook(settings: AllSettings) -> bool:
    return settings.shared.placement.hints and settings.annotator.hints.admission == "webhook"


def service_finding(service: str, account: str, allowed: Mapping[ApiPermission, bool]) -> Finding:
    """The missing permissions of a service."""
    subject = f"{service} ({account})"
    missing = [permission for permission, granted in allowed.items() if permission.service == service and not granted]
    required = [permission for permission in missing if permission.when != "workloads"]
    if required:
        folder = "colocation" if service in ("reclaimer", "agent") else "base"
        fix = f"apply k8s/{folder}/{service}.yaml {UPGRADE}"
        if account == CURRENT_USER:
            fix = "use a context whose user may"
        elif all(permission.when in ("hints", "webhook") for permission in required):
            fix = INSTALL
        elif all(permission.when == "consolidation" for permission in required):
            fix = "apply k8s/consolidation (with Helm: upgrade the release)"
        elif all(permission.when == "deletionCosts" for permission in required):
            fix = "apply k8s/deletion-costs (with Helm: set deletionCosts)"
        elif all(permission.when in ("surge", "detach") for permission in required):
            fix = "apply k8s/surge (with Helm: set surge)"
        return Finding("error", subject, f"may not {', '.join(map(str, required))}", fix)
    if missing:
        message = f"may not {', '.join(map(str, missing))}: workloads of these kinds are not moved"
        fix = f"if the cluster has such workloads, apply k8s/base {UPGRADE}"
        return Finding("warning", subject, message, fix)
    count = sum(permission.service == service for permission in allowed)
    return Finding("ok", subject, f"has the {count} permissions it needs")


async def _is_granted(reviews: _AccessReviews, permission: ApiPermission, settings: AllSettings) -> bool:
    """Whether it is granted where it is required. Pods are detached in the same namespaces as they are evicted."""
    if await reviews.allowed(permission):
        return True
    namespaces = (settings.shared.namespaces.include or ()) if permission.when == "detach" else ()
    granted = await asyncio.gather(*(reviews.allowed(permission, name) for name in namespaces[:MAX_NAMESPACES]))
    return bool(granted) and all(granted)


async def _eviction_finding(reviews: _AccessReviews, settings: AllSettings) -> tuple[Finding, bool]:
    """The finding, and whether the binder may evict in any namespace."""
    account, evict = reviews.account("binder"), settings.binder.evict
    if await reviews.allowed(EVICT):
        return eviction_finding(account, everywhere=True, evict=evict), True
    shared = settings.shared
    names = [each.metadata.name for each in await reviews.kube.list(NAMESPACES)]
    configured = [name for name in names if shared.namespaces.allow(name, shared.kubernetes.namespace)]
    checked = configured[:MAX_NAMESPACES]
    results = await asyncio.gather(*(reviews.allowed(EVICT, name) for name in checked))
    granted = [name for name, allowed in zip(checked, results, strict=True) if allowed]
    finding = eviction_finding(account, everywhere=False, evict=evict, granted=granted, configured=configured)
    return finding, bool(granted)


def eviction_finding(
    account: str, *, everywhere: bool, evict: bool, granted: Sequence[str] = (), configured: Sequence[str] = ()
) -> Finding:
    """The finding that compares the permission to evict with `binder.evict`. `granted`, `configured`: namespaces."""
    subject = f"evictions ({account})"
    if everywhere or (configured and len(granted) == len(configured)):
        message = "may evict" + ("" if evict else "; binder.evict is false, so every eviction is a dry run")
        return Finding("ok", subject, message)
    if granted:
        return Finding("ok", subject, f"may evict in {', '.join(granted)}, and not in other namespaces")
    if not evict:
        return Finding("ok", subject, "may not evict (mode observe): every eviction is a dry run")
    return Finding(
        "error",
        subject,
        "may not evict, and binder.evict is true",
        "apply k8s/base, or k8s/overlays/namespaced with eviction.yaml in each namespace "
        "(with Helm: set mode to evict)",
    )


async def _agents_evict(kube: Kube, namespace: str) -> bool | None:
    """`agent.evict` in the ConfigMap of the agents; None if it cannot be read."""
    try:
        stored = await kube.list(CONFIG_MAPS, namespace)
        documents = [read_document(each.data["equipoise.yaml"]) for each in stored if "equipoise.yaml" in each.data]
        return any(all_settings(document).agent.evict for document in documents) if documents else None
    except (KubeError, ConfigurationError):
        return None


def agent_eviction_finding(permitted: bool, evict: bool | None) -> Finding:
    """The finding that compares the permission of the agents with `agent.evict`, which is None if it is unknown."""
    subject = "evictions by agents (ServiceAccount equipoise-agent)"
    if permitted:
        off = "; agent.evict is false, so evictions are only logged" if evict is False else ""
        return Finding("ok", subject, f"may evict batch pods{off}")
    if not evict:
        return Finding("ok", subject, "may not evict: evictions are only logged")
    fix = "apply k8s/colocation/evictions (with Helm: set agent.evictions)"
    return Finding("error", subject, "may not evict, and agent.evict is true", fix)
