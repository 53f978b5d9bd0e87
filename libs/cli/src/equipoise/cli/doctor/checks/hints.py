"""Placement hints: the policy or the webhook is there and unchanged, hints are fresh, and a new pod gets them.

The proof is a pod that is created in a dry run, as its controller would create it: nothing is stored.
"""

import base64
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from equipoise.cli.bus.access import SECRETS, SecretObject
from equipoise.cli.certificates.purposes import HINTS_WEBHOOK
from equipoise.cli.doctor.environment import Environment, Finding
from equipoise.cli.doctor.foreign_configuration import read_foreign
from equipoise.cli.doctor.whole_objects import policy_differences, whole
from equipoise.cli.hints.due import due_text, first_hints_due
from equipoise.cli.terminal import count, duration
from equipoise.contracts.hints.definition import GROUP, KIND
from equipoise.contracts.hints.hints_object import HintsObject, remaining_validity
from equipoise.contracts.hints.policy import HINTED, INSTALL, NAME, SWITCH, UNSUPPORTED, policy
from equipoise.contracts.hints.probe_pod import probe_pod
from equipoise.contracts.hints.webhook import (
    CONFIGURATION_KIND,
    NO_LONGER_CALLED,
    STATE,
    WebhookConfiguration,
    ca_of,
    hinted_namespaces,
    serves_pods,
)
from equipoise.contracts.kubernetes.mutating_policy import API_GROUP, POLICY_KIND, supported_version
from equipoise.contracts.kubernetes.objects.cluster import ConfigMap
from equipoise.contracts.kubernetes.objects.metadata import Object, WholeObject
from equipoise.runtime.configuration.yaml_text import UnreadableYaml
from equipoise.runtime.kubernetes.client import (
    CONFIG_MAPS,
    HINTS,
    NAMESPACES,
    PODS,
    WEBHOOK_CONFIGURATIONS,
    Kube,
    KubeError,
    find,
    metadata_of,
    mutating_bindings,
    mutating_policies,
)

SUBJECT = "placement hints"
WEBHOOK = "webhook of hints"
SECRET = HINTS_WEBHOOK.secrets[0].name
ISSUE = "equipoise certificates --for hints-webhook"
DESCHEDULER = "descheduler of kubernetes-sigs"

CONFIG_MAP = ("descheduler-policy-configmap", "kube-system")
CONFIG_MAP_LABEL = "app.kubernetes.io/name=descheduler"
"""The manifests of that descheduler store its policy in CONFIG_MAP; its chart, in a ConfigMap with this label."""

POLICY = "DeschedulerPolicy"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
MOST_CONFIG_MAPS = 20
"""The largest number of ConfigMaps that a check reads."""


async def hints(environment: Environment) -> list[Finding]:
    settings = environment.settings
    enabled = settings.shared.placement.hints
    try:
        kube = environment.api()
        if enabled and settings.annotator.hints.admission == "webhook":
            return await by_webhook(environment, kube)
        version = supported_version(await kube.served_versions(API_GROUP, POLICY_KIND))
        if version is None:
            return [Finding("error", SUBJECT, UNSUPPORTED)] if enabled else [_NOT_USED]
        installed = await find(kube, whole(mutating_policies(version)), NAME)
        if installed is None:
            if not enabled:
                return [_NOT_USED]
            return [Finding("error", SUBJECT, f"there is no {POLICY_KIND} {NAME}: pods get no hints", INSTALL)]
        if await find(kube, mutating_bindings(version), NAME) is None:
            return [Finding("error", SUBJECT, f"the policy {NAME} has no binding: pods get no hints", INSTALL)]
        if not await kube.served_versions(GROUP, KIND):
            return [Finding("error", SUBJECT, f"the API server does not know the kind {KIND}", INSTALL)]
        now = kube.server_time(environment.clock.now())
        stored = await kube.list(HINTS)
        return [
            policy_finding(installed, version),
            until_due(freshness_finding(stored, now), _seconds_until_due(environment, installed, now)),
            *await _proof(kube, _valid(stored, now)),
            *await upstream_descheduler(kube),
        ]
    except KubeError as error:
        return [Finding("unknown", SUBJECT, f"not checked: {error}")]


async def by_webhook(environment: Environment, kube: Kube) -> list[Finding]:
    """The findings where a webhook adds the hints. Raises KubeError."""
    found = await find(kube, WEBHOOK_CONFIGURATIONS, NAME)
    if found is None:
        return [Finding("error", SUBJECT, f"there is no {CONFIGURATION_KIND} {NAME}: pods get no hints", INSTALL)]
    if not await kube.served_versions(GROUP, KIND):
        return [Finding("error", SUBJECT, f"the API server does not know the kind {KIND}", INSTALL)]
    now = kube.server_time(environment.clock.now())
    stored = await kube.list(HINTS)
    remaining = _seconds_until_due(environment, found, now)
    called = webhook_finding(found, remaining)
    return [
        called,
        await _ca_finding(kube, environment.settings.shared.kubernetes.namespace, found, remaining),
        until_due(freshness_finding(stored, now), remaining),
        *(await _proof(kube, _valid(stored, now)) if called.state == "ok" else ()),
        *await upstream_descheduler(kube),
    ]


def _seconds_until_due(environment: Environment, installed: Object, now: float) -> float:
    """Seconds until the first hints are due, 0 or less afterwards.

    `installed`: what adds the hints to pods. `now`: the time of the API server's clock.
    """
    created = installed.metadata.creation_timestamp
    published = [] if isinstance(environment.effective, str) else environment.effective
    interval = environment.settings.scorer.hints.interval
    return first_hints_due(created.timestamp() if created else None, published, interval, now) - now


def until_due(finding: Finding, remaining: float) -> Finding:
    """The finding; an error is `unknown` while the first hints are due in `remaining` seconds."""
    if finding.state != "error" or remaining <= 0:
        return finding
    fix = f"wait, and run `equipoise doctor` again (with Helm: `helm test`); if it remains, {finding.fix}"
    return Finding("unknown", finding.subject, f"{finding.message}; {due_text(remaining)}", fix)


def webhook_finding(found: WebhookConfiguration, remaining: float = 0.0) -> Finding:
    """Whether the API server calls the webhook for new pods. `remaining`: seconds until the first hints are due.

    It is not called before it has responded for a minute, and before there are hints. It was slow, or did not respond,
    if it is not called any more: that is an error at any time.
    """
    state = found.metadata.annotations.get(STATE, "")
    if serves_pods(found):
        return Finding("ok", WEBHOOK, f"{state or 'called'}, in {count(len(hinted_namespaces(found)), 'namespace')}")
    fix = "see /readyz of the annotators, and the pods of equipoise-hints-webhook"
    finding = Finding("error", WEBHOOK, f"{state or 'not called yet'}: pods get no hints", fix)
    return finding if state.startswith(NO_LONGER_CALLED) else until_due(finding, remaining)


async def _ca_finding(kube: Kube, namespace: str, found: WebhookConfiguration, remaining: float) -> Finding:
    """Whether the API server verifies the webhook with the CA of its certificate."""
    subject = f"CA of the {WEBHOOK}"
    try:
        secret = await find(kube, SECRETS, SECRET, namespace)
    except KubeError as error:
        return Finding("unknown", subject, f"not compared with that of Secret {namespace}/{SECRET}: {error}")
    if secret is None:
        return Finding("unknown", subject, f"not compared: there is no Secret {namespace}/{SECRET}")
    return ca_finding(found, secret, namespace, remaining)


def ca_finding(found: WebhookConfiguration, secret: SecretObject, namespace: str, remaining: float = 0.0) -> Finding:
    """The CA in the configuration, and the one in the Secret. `remaining`: seconds until the first hints are due."""
    subject = f"CA of the {WEBHOOK}"
    expected = base64.b64decode((secret.data or {}).get("ca.crt", ""))
    if not expected:
        fix = f"delete the Secret, and let the Job equipoise-prepare or `{ISSUE}` create it"
        return Finding("error", subject, f"Secret {namespace}/{SECRET} has no ca.crt", fix)
    if ca_of(found) == expected:
        return Finding("ok", subject, f"is that of Secret {namespace}/{SECRET}")
    if not ca_of(found):
        fix = "see /readyz of the annotators, which write it"
        finding = Finding("error", subject, "not written into the configuration: pods get no hints", fix)
        return until_due(finding, remaining)
    message = (
        f"another one than that of Secret {namespace}/{SECRET}: the API server does not trust the webhook, and pods "
        "get no hints"
    )
    fix = "the annotators exchange it within about two minutes: if they do not, see their /readyz"
    return Finding("error", subject, message, fix)


_NOT_USED = Finding("ok", SUBJECT, "not used: placement.hints is false, and no policy adds them")


def policy_finding(installed: WholeObject, version: str) -> Finding:
    """Whether the installed policy is that of this release. Fields with defaults of the API server are ignored."""
    changed = policy_differences(installed, policy(version))
    if not changed:
        return Finding("ok", f"policy {NAME}", "is the one of this release")
    message = f"differs from the one of this release in {', '.join(changed)}"
    return Finding("warning", f"policy {NAME}", message, INSTALL)


def freshness_finding(stored: Sequence[HintsObject], now: float) -> Finding:
    """Whether there are hints that have not expired. `now`: the time of the API server's clock."""
    valid = _valid(stored, now)
    if valid:
        workloads = count(sum(len(each.keys) for each in valid), "workload")
        return Finding("ok", SUBJECT, f"fresh for {workloads} in {count(len(valid), 'namespace')}")
    validities = [seconds for each in stored if (seconds := remaining_validity(each, now)) is not None]
    message = f"the newest have expired {duration(-max(validities))} ago" if validities else "none were written"
    fix = "see /readyz of the annotator and of the scorer; both need placement.hints"
    return Finding("error", SUBJECT, f"{message}: pods get none", fix)


def _valid(stored: Sequence[HintsObject], now: float) -> list[HintsObject]:
    return [each for each in stored if (remaining_validity(each, now) or 0.0) > 0]


async def _proof(kube: Kube, valid: Sequence[HintsObject]) -> list[Finding]:
    """Whether a new pod of the first workload with hints gets its hint. Namespaces that opted out are skipped."""
    for stored in valid:
        namespace, key = stored.metadata.namespace, stored.keys[0]
        if (await kube.get(NAMESPACES, namespace)).metadata.labels.get(SWITCH) == "off":
            continue
        subject = f"new pod of {namespace}/{key}"
        try:
            created = await kube.create(whole(PODS), probe_pod(namespace, key, name="equipoise-doctor"), dry_run=True)
        except KubeError as error:
            fix = "use a user who may create pods in this namespace"
            return [Finding("unknown", subject, f"not tried: {error}", fix)]
        if created.metadata.annotations.get(HINTED, "").startswith(f"{key}@"):
            return [Finding("ok", subject, "gets its hint (created in a dry run)")]
        return [Finding("error", subject, "gets no hint, although it is fresh", INSTALL)]
    return []


async def upstream_descheduler(kube: Kube) -> list[Finding]:
    """Findings about the policies of the descheduler of kubernetes-sigs.

    The ConfigMaps are read one by one, because tenants may have created many large ones with this label.
    """
    administrators, findings = CONFIG_MAP[1], list[Finding]()
    try:
        labeled = await kube.list(metadata_of(CONFIG_MAPS), label_selector=CONFIG_MAP_LABEL)
        names = {CONFIG_MAP[::-1]} | {(each.metadata.namespace, each.metadata.name) for each in labeled}
        ordered = sorted(names, key=lambda each: (each[0] != administrators, each))
        for namespace, name in ordered[:MOST_CONFIG_MAPS]:
            found = await kube.list(CONFIG_MAPS, namespace, field_selector=f"metadata.name={name}")
            findings += descheduler_findings(found)
    except KubeError as error:
        return [*findings, Finding("unknown", DESCHEDULER, f"its policy was not read: {error}")]
    if unread := len(ordered[MOST_CONFIG_MAPS:]):
        message = f"{count(unread, 'more ConfigMap')} with the label {CONFIG_MAP_LABEL} not read"
        findings.append(Finding("unknown", DESCHEDULER, message))
    return findings


def descheduler_findings(config_maps: Sequence[ConfigMap]) -> Iterator[Finding]:
    """A finding for each policy that would evict pods whose hint has expired, or that cannot be read.

    Outside of kube-system anyone may have written the ConfigMap, and it is unknown whether a descheduler uses it.
    The finding is therefore only a warning.
    """
    for each in config_maps:
        name = f"{each.metadata.namespace}/{each.metadata.name}"
        for text in each.data.values():
            if POLICY not in text:
                continue
            try:
                enforces = _enforces_preferences(read_foreign(text, _Policy))
            except UnreadableYaml as error:
                yield Finding("unknown", DESCHEDULER, f"the policy in ConfigMap {name} cannot be read: {error}")
                continue
            if enforces:
                in_kube_system = each.metadata.namespace == CONFIG_MAP[1]
                evicts = "it evicts" if in_kube_system else "a descheduler that uses it evicts"
                message = f"ConfigMap {name} enforces preferred node affinity: {evicts} pods whose hint has expired"
                fix = f"remove {PREFERRED} from RemovePodsViolatingNodeAffinity"
                yield Finding("error" if in_kube_system else "warning", DESCHEDULER, message, fix)


class _Plugin(msgspec.Struct, frozen=True, kw_only=True):
    name: str = ""
    args: Any = None


class _Profile(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    plugin_config: list[_Plugin] | None = None


class _Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a policy that are needed: `profiles` of v1alpha2, and `strategies` of v1alpha1."""

    kind: str = ""
    profiles: list[_Profile] | None = None
    strategies: dict[str, Any] | None = None


def _enforces_preferences(policy: _Policy) -> bool:
    plugins = [plugin for profile in policy.profiles or () for plugin in profile.plugin_config or ()]
    strategies = [*((plugin.name, plugin.args) for plugin in plugins), *(policy.strategies or {}).items()]
    return policy.kind == POLICY and any(
        name == "RemovePodsViolatingNodeAffinity" and PREFERRED in str(arguments) for name, arguments in strategies
    )
