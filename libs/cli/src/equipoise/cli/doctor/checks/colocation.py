"""Checks that the accounts of co-location are restricted, that its profiles are complete, and their pods admitted."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from equipoise.cli.doctor.colocation_parts import InstalledParts, installed_parts
from equipoise.cli.doctor.environment import UPGRADE, Environment, Finding
from equipoise.cli.doctor.whole_objects import policy_differences, whole
from equipoise.cli.service_settings import AllSettings
from equipoise.cli.terminal import count
from equipoise.contracts.colocation.bands import OFFERED_NAMES, RESOURCE_NAMES
from equipoise.contracts.colocation.policy_parts import POLICY_VERSION, VERSION
from equipoise.contracts.colocation.profile import PREFIX, PRIORITY_CLASS, PROFILE_LABEL, stored_profile_faults
from equipoise.contracts.colocation.profile_policy import profile_policy
from equipoise.contracts.kubernetes.labels import integer, selects
from equipoise.contracts.kubernetes.mutating_policy import API_GROUP, POLICY_KIND, REQUIREMENT, supported_version
from equipoise.contracts.kubernetes.objects.cluster import ConfigMap, Namespace
from equipoise.contracts.kubernetes.objects.metadata import LabelSelector, WholeObject, is_ready
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.reclaimer.shell.status_writer import FENCE
from equipoise.runtime.kubernetes.client import (
    ADMISSION_POLICIES,
    CONFIG_MAPS,
    NAMESPACES,
    PODS,
    Kube,
    KubeError,
    Resource,
    find,
    mutating_bindings,
    mutating_policies,
)

SUBJECT = "co-location"
INSTALL = "apply k8s/colocation/profiles"
AGENT_FENCE = "equipoise-agent-fence"

AGENTS = "app.kubernetes.io/name=equipoise,app.kubernetes.io/component=agent"
"""Selects the pods of the agent."""

LIMIT_RANGES = Resource(group="", version="v1", plural="limitranges", kind="LimitRange", model=WholeObject)
QUOTAS = Resource(group="", version="v1", plural="resourcequotas", kind="ResourceQuota", model=WholeObject)
PRIORITY_CLASSES = Resource(
    group="scheduling.k8s.io", version="v1", plural="priorityclasses", kind="PriorityClass", model=WholeObject,
    namespaced=False,
)  # fmt: skip

_EXTENDED = re.compile(r"(?!kubernetes\.io/)[^/]+/(batch|mid)-(cpu|memory)")
_OFFERED = frozenset(OFFERED_NAMES)
_NATIVE = re.compile(r"(requests\.|limits\.)?(cpu|memory)")


async def colocation(environment: Environment) -> list[Finding]:
    """The findings about co-location. Where it is not used, the only finding states this."""
    findings = list(setting_findings(environment.settings))
    try:
        kube = environment.api()
        nodes = await environment.nodes()
        version = supported_version(await kube.served_versions(API_GROUP, POLICY_KIND))
        bindings = [] if version is None else await _bindings(kube, version)
        parts = await installed_parts(kube, environment.settings.shared.kubernetes.namespace)
        offering = sum(not _OFFERED.isdisjoint(node.status.allocatable) for node in nodes)
        findings += [*extended_name_findings(nodes), *await _fences(kube, parts)]
        if offering or parts != InstalledParts():
            findings.append(offer_finding(offering, len(nodes)))
        if offering:
            findings.append(agent_finding(nodes, await kube.list(PODS, parts.agents, AGENTS)))
        if version is None or not bindings:
            why = f"no profiles: they need {REQUIREMENT}" if version is None else "there are no profiles"
            return (
                [*findings, Finding("ok", SUBJECT, why)] if findings else [Finding("ok", SUBJECT, f"not used: {why}")]
            )
        installed = await find(kube, whole(mutating_policies(version)), PREFIX)
        findings.append(policy_finding(installed, version))
        findings += await _profiles(kube, bindings)
    except KubeError as error:
        return [*findings, Finding("unknown", SUBJECT, f"not checked: {error}")]
    return findings


def setting_findings(settings: AllSettings) -> Iterator[Finding]:
    """A warning for each service that expects messages of the reclaimer although the reclaimer is disabled."""
    for service, section in (("scorer", settings.scorer.reclaimed), ("annotator", settings.annotator.reclaimed)):
        if section.enabled and not settings.reclaimer.enabled:
            message = f"{service}.reclaimed.enabled has no effect: reclaimer.enabled is false"
            yield Finding("warning", SUBJECT, message, f"set both to true, or {service}.reclaimed.enabled to false")


async def _bindings(kube: Kube, version: str) -> list[WholeObject]:
    bindings = await kube.list(whole(mutating_bindings(version)))
    return [binding for binding in bindings if binding.spec.get("policyName") == PREFIX]


async def _fences(kube: Kube, parts: InstalledParts) -> list[Finding]:
    """Whether each installed account has the policy that restricts it."""
    findings = []
    if parts.reclaimer:
        why = "its account may write every field of nodes/status, and the reclaimer writes nothing until it is there"
        findings.append(await _fence(kube, FENCE, why, "reclaimer-fence.yaml"))
    if parts.agents:
        why = "the agents may evict every pod that their roles permit"
        findings.append(await _fence(kube, AGENT_FENCE, why, "agent.yaml"))
    return findings


async def _fence(kube: Kube, policy: str, why: str, file: str) -> Finding:
    if await find(kube, ADMISSION_POLICIES, policy) is None:
        message = f"there is no such ValidatingAdmissionPolicy: {why}"
        return Finding("error", f"policy {policy}", message, f"apply k8s/colocation/{file} {UPGRADE}")
    return Finding("ok", f"policy {policy}", "is there")


def offer_finding(offering: int, nodes: int) -> Finding:
    """How many nodes offer resources to batch pods. `offering`: the number of nodes whose status has such amounts."""
    if offering:
        return Finding("ok", SUBJECT, f"{offering} of {count(nodes, 'node')} offer amounts")
    return Finding("ok", SUBJECT, "no node offers amounts: the reclaimer writes them with reclaimer.mode enforce only")


def agent_finding(nodes: Sequence[Node], agents: Sequence[Pod]) -> Finding:
    """Whether an agent is ready on each node that offers amounts."""
    ready = {each.spec.node_name for each in agents if is_ready(each.status.conditions)}
    offering = sorted(node.metadata.name for node in nodes if not _OFFERED.isdisjoint(node.status.allocatable))
    without = [name for name in offering if name not in ready]
    if not without:
        return Finding("ok", "agents", f"one is ready on every node that offers amounts ({len(offering)})")
    message = (
        f"none is ready on {len(without)} of {count(len(offering), 'node')} with amounts, for example on {without[0]}: "
        "only the weights of the kubelet limit batch pods there"
    )
    fix = "its /readyz has the reason" if agents else "apply k8s/colocation (Helm: agent.enabled: true)"
    return Finding("warning", "agents", message, fix)


def policy_finding(installed: WholeObject | None, version: str) -> Finding:
    """Whether the installed policy is that of this release. Fields with defaults of the API server are ignored."""
    if installed is None:
        return Finding("error", SUBJECT, f"there is no {POLICY_KIND} {PREFIX}: profiles change no pods", INSTALL)
    subject = f"policy {PREFIX}"
    number = installed.metadata.annotations.get(POLICY_VERSION, "")
    if (integer(number) or 0) > VERSION:
        message = f"has the version {number}; this release has {VERSION}"
        return Finding("warning", subject, message, "use the CLI of the newer release")
    changed = policy_differences(installed, profile_policy(version))
    if not changed and number == str(VERSION):
        return Finding("ok", subject, "is the one of this release")
    differs = ", ".join(changed) or f"the annotation {POLICY_VERSION}"
    return Finding("warning", subject, f"differs from the one of this release in {differs}", INSTALL)


async def _profiles(kube: Kube, bindings: Sequence[WholeObject]) -> list[Finding]:
    classes = {each.metadata.name for each in await kube.list(PRIORITY_CLASSES)}
    namespaces = await kube.list(NAMESPACES)
    limits, quotas = await kube.list(LIMIT_RANGES), await kube.list(QUOTAS)
    findings: list[Finding] = []
    for binding in bindings:
        reference = binding.spec.get("paramRef", {})
        stored = await find(kube, CONFIG_MAPS, reference.get("name", ""), reference.get("namespace", ""))
        found = list(profile_findings(binding, stored, classes))
        if stored is not None and stored.data.get("resources") in ("mid", "batch"):
            found += refusal_findings(selected_namespaces(binding, namespaces), limits, quotas)
        findings += found or [Finding("ok", _name(binding), "is valid")]
    return findings


def _name(binding: WholeObject) -> str:
    return f"profile {binding.metadata.labels.get(PROFILE_LABEL) or binding.metadata.name}"


def profile_findings(binding: WholeObject, stored: ConfigMap | None, classes: set[str]) -> Iterator[Finding]:
    """The findings of one profile; `classes`: the PriorityClasses that exist."""
    reference = binding.spec.get("paramRef", {})
    config_map = f"ConfigMap {reference.get('namespace')}/{reference.get('name')}"
    fix_profile = "apply the output of `equipoise colocation profile` again"
    if stored is None:
        yield Finding(
            "error", _name(binding), f"there is no {config_map}: pods are created as ordinary ones", fix_profile
        )
        return
    for fault in stored_profile_faults(stored.data):
        yield Finding("error", _name(binding), f"{config_map}: {fault}: pods are created as ordinary ones", fix_profile)
    named = stored.data.get("priorityClassName") or binding.metadata.annotations.get(PRIORITY_CLASS, "")
    if named not in classes:
        fix = "apply k8s/colocation/profiles/priority-classes.yaml"
        yield Finding("error", _name(binding), f"there is no PriorityClass {named}: its pods are refused", fix)


def selected_namespaces(binding: WholeObject, namespaces: Sequence[Namespace]) -> set[str]:
    """The names of the namespaces whose pods the profile may change."""
    document: Mapping[str, Any] = binding.spec.get("matchResources", {}).get("namespaceSelector") or {}
    selector = msgspec.convert(document, LabelSelector, strict=False)
    return {each.metadata.name for each in namespaces if selects(selector, each.metadata.labels)}


def refusal_findings(
    namespaces: set[str], limits: Sequence[WholeObject], quotas: Sequence[WholeObject]
) -> Iterator[Finding]:
    """The LimitRanges and ResourceQuotas in these namespaces that refuse pods without requests of cpu or memory."""
    for each in limits:
        if each.metadata.namespace in namespaces and (names := _bounded(each.spec)):
            message = f"has min or max of {' and '.join(names)}: it refuses pods with amounts of a band"
            fix = "remove min and max, or set convertResources: false"
            yield Finding("error", f"LimitRange {each.metadata.namespace}/{each.metadata.name}", message, fix)
    for each in quotas:
        # A quota with scopes applies to some pods only. A quota for BestEffort can limit only the number of pods.
        if each.metadata.namespace not in namespaces or each.spec.get("scopes") or each.spec.get("scopeSelector"):
            continue
        if names := sorted(name for name in each.spec.get("hard", {}) if _NATIVE.fullmatch(name)):
            message = f"limits {' and '.join(names)}: it refuses pods with amounts of a band"
            fix = "add the scope NotBestEffort, and limit batch pods with one of their PriorityClass"
            yield Finding("error", f"ResourceQuota {each.metadata.namespace}/{each.metadata.name}", message, fix)


def _bounded(spec: Mapping[str, Any]) -> list[str]:
    return [
        name
        for name in ("cpu", "memory")
        if any(
            name in (limit.get(bound) or {})
            for limit in spec.get("limits", ())
            if limit.get("type") in ("Container", "Pod")
            for bound in ("min", "max")
        )
    ]


def extended_name_findings(nodes: Sequence[Node]) -> Iterator[Finding]:
    """A warning if nodes offer extended resources.

    A kubelet that starts without a checkpoint of its device manager sets extended resources to 0.
    """
    names = sorted({name for node in nodes for name in node.status.allocatable if _EXTENDED.fullmatch(name)})
    if names:
        offering = sum(any(name in node.status.allocatable for name in names) for node in nodes)
        message = (
            f"{count(offering, 'node')} offer {', '.join(names)}: "
            "a restart of a kubelet can set extended resources to 0"
        )
        fix = f"use {' and '.join(RESOURCE_NAMES['batch'])}: their names are not extended ones"
        yield Finding("warning", SUBJECT, message, fix)
