"""What the services may do at the API server, asked of itself: may they do what they need?"""

import asyncio
from collections.abc import Mapping, Sequence

from equipoise.cli.doctor.checks.needed_rights import EVICT, NEEDED, Right, shard_leases
from equipoise.cli.doctor.environment import Configured, Surroundings
from equipoise.cli.doctor.finding import Finding
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

AT_ONCE = 8
"""Questions under way."""

NAMESPACES_ASKED = 100
"""In so many namespaces at most is asked for the right to evict, where it is not given in all."""

WHERE = "rights"
SELF = "you"


async def rights(around: Surroundings) -> list[Finding]:
    namespace = around.configured.shared.kubernetes.namespace
    try:
        kube = around.api()
        deployed = await _deployed(kube, namespace)
        asking = _Asking(kube, namespace, deployed=deployed)
        try:
            findings = await _judge(asking, around.configured)
        except Forbidden:
            return [
                Finding(
                    state="unknown",
                    where=WHERE,
                    what="you may not ask what the accounts of the services may do",
                    to_do="ask as somebody who may create subjectaccessreviews, a cluster administrator",
                )
            ]
        if deployed:
            return findings
        what = f"no account equipoise-collector in {namespace}: asked about yourself, as whom `equipoise up` runs"
        return [Finding(state="ok", where=WHERE, what=what), *findings]
    except KubeError as error:
        return [Finding(state="unknown", where=WHERE, what=f"not looked at: {error}")]


async def _deployed(kube: Kube, namespace: str) -> bool:
    """Have the services accounts of their own? Who may not see is taken to have them."""
    try:
        await kube.get(SERVICE_ACCOUNTS, "equipoise-collector", namespace)
    except NotFound:
        return False
    except Forbidden:
        return True
    return True


class _Asking:
    """Reviews of access, a few at once."""

    def __init__(self, kube: Kube, namespace: str, *, deployed: bool) -> None:
        self.kube = kube
        self.namespace = namespace
        self._deployed = deployed
        self._slots = asyncio.Semaphore(AT_ONCE)

    def who(self, service: str) -> str:
        return f"account equipoise-{service}" if self._deployed else SELF

    async def may(self, right: Right, namespace: str = "") -> bool:
        """Raises KubeError. `namespace`: there; empty: where the right is needed."""
        attributes = ResourceAttributes(
            verb=right.verb,
            group=right.group,
            resource=right.resource,
            subresource=right.subresource,
            name=right.name,
            namespace=namespace or (self.namespace if right.own else ""),
        )
        spec = AccessReviewSpec(resource_attributes=attributes)
        if self._deployed:
            account = f"system:serviceaccount:{self.namespace}:equipoise-{right.service}"
            accounts = "system:serviceaccounts"
            groups = [accounts, f"{accounts}:{self.namespace}", "system:authenticated"]
            spec = AccessReviewSpec(resource_attributes=attributes, user=account, groups=groups)
        resource = ACCESS_REVIEWS if self._deployed else SELF_ACCESS_REVIEWS
        async with self._slots:
            return (await self.kube.create(resource, AccessReview(spec=spec))).status.allowed


async def _judge(asking: _Asking, configured: Configured) -> list[Finding]:
    needed = [right for right in NEEDED if is_needed(right, configured)]
    answers = await asyncio.gather(*(asking.may(right) for right in needed))
    allowed = dict(zip(needed, answers, strict=True))
    findings = [judged(service, asking.who(service), allowed) for service in SERVICES if service != "scorer"]
    return [*findings, await _evictions(asking, configured)]


def is_needed(right: Right, configured: Configured) -> bool:
    """By the configuration; whether the cluster has such workloads is not known."""
    match right.when:
        case "persistentVolumes":
            return configured.shared.protection.persistent_volumes
        case "metricsServer":
            return configured.collector.source == "metrics-server"
        case "shards":
            return right.name in shard_leases(configured.collector.shards)
    return True


def judged(service: str, who: str, allowed: Mapping[Right, bool]) -> Finding:
    """What one service lacks."""
    where = f"{service} ({who})"
    missing = [right for right, yes in allowed.items() if right.service == service and not yes]
    needed = [str(right) for right in missing if right.when != "workloads"]
    if needed:
        return Finding(
            state="error",
            where=where,
            what=f"may not {', '.join(needed)}",
            to_do=f"apply k8s/base/{service}.yaml" if who != SELF else "use a context whose user may",
        )
    if missing:
        what = f"may not {', '.join(map(str, missing))}: workloads of these kinds stay as they are"
        return Finding(state="warning", where=where, what=what, to_do="only if you have such: apply k8s/base")
    count = sum(right.service == service for right in allowed)
    return Finding(state="ok", where=where, what=f"has the {count} rights it needs")


async def _evictions(asking: _Asking, configured: Configured) -> Finding:
    who = asking.who("binder")
    if await asking.may(EVICT):
        return judged_evictions(who, everywhere=True, evict=configured.binder.evict)
    shared = configured.shared
    names = [each.metadata.name for each in await asking.kube.list(NAMESPACES)]
    wanted = [name for name in names if shared.namespaces.allow(name, shared.kubernetes.namespace)]
    asked = wanted[:NAMESPACES_ASKED]
    answers = await asyncio.gather(*(asking.may(EVICT, name) for name in asked))
    there = [name for name, yes in zip(asked, answers, strict=True) if yes]
    return judged_evictions(who, everywhere=False, evict=configured.binder.evict, there=there, wanted=wanted)


def judged_evictions(
    who: str, *, everywhere: bool, evict: bool, there: Sequence[str] = (), wanted: Sequence[str] = ()
) -> Finding:
    """The right to evict against the wish to. Without the wish nobody needs it."""
    where = f"evictions ({who})"
    if everywhere or (wanted and len(there) == len(wanted)):
        what = "may evict" + ("" if evict else "; binder.evict is false, so nothing leaves")
        return Finding(state="ok", where=where, what=what)
    if there:
        return Finding(
            state="ok", where=where, what=f"may evict in {', '.join(there)}, and not in the other namespaces"
        )
    if not evict:
        what = "may evict nowhere (overlay observe): every eviction is a dry run"
        return Finding(state="ok", where=where, what=what)
    return Finding(
        state="error",
        where=where,
        what="may evict nowhere, and binder.evict is true",
        to_do="apply k8s/base, or k8s/overlays/namespaced with eviction.yaml in each namespace",
    )
