"""What `equipoise doctor` finds about placement hints. tests/e2e/test_placement_hints.py has an API server."""

import base64
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from builders import NOW

from equipoise.annotator.settings import AnnotatorSettings, HintWriteSettings
from equipoise.cli.bus.access import SECRETS, SecretObject
from equipoise.cli.doctor.checks.hints import (
    CONFIG_MAP,
    MOST_CONFIG_MAPS,
    SECRET,
    ca_finding,
    descheduler_findings,
    freshness_finding,
    hints,
    policy_finding,
    until_due,
    upstream_descheduler,
    webhook_finding,
)
from equipoise.cli.doctor.environment import Environment, Finding
from equipoise.cli.doctor.whole_objects import whole
from equipoise.cli.service_settings import AllSettings
from equipoise.contracts.bus.subjects import ServiceName
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Placement
from equipoise.contracts.hints.definition import GROUP, KIND
from equipoise.contracts.hints.hints_object import Hint, HintsObject, HintTerm
from equipoise.contracts.hints.policy import policy
from equipoise.contracts.hints.webhook import STATE, WebhookConfiguration, webhooks
from equipoise.contracts.kubernetes.mutating_policy import API_GROUP, POLICY_KIND
from equipoise.contracts.kubernetes.objects.cluster import ConfigMap
from equipoise.contracts.kubernetes.objects.metadata import Object, ObjectMeta, WholeObject
from equipoise.contracts.messages.health import EffectiveConfiguration
from equipoise.runtime.configuration import Shared
from equipoise.runtime.kubernetes.client import (
    CONFIG_MAPS,
    WEBHOOK_CONFIGURATIONS,
    mutating_bindings,
    mutating_policies,
)
from equipoise.scorer.decisions.placement_hints.settings import HintSettings
from equipoise.scorer.settings import ScorerSettings
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

ARGUMENTS = {"nodeAffinityType": ["preferredDuringSchedulingIgnoredDuringExecution"]}
REQUIRED = {"nodeAffinityType": ["requiredDuringSchedulingIgnoredDuringExecution"]}


def profile(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"profiles": [{"name": "default", "pluginConfig": [{"name": name, "args": arguments}]}]}


@pytest.mark.parametrize(
    ("policy", "found"),
    [
        (profile("RemovePodsViolatingNodeAffinity", ARGUMENTS), True),
        (profile("RemovePodsViolatingNodeAffinity", REQUIRED), False),
        (profile("RemoveDuplicates", {}), False),
        ({"strategies": {"RemovePodsViolatingNodeAffinity": {"enabled": True, "params": ARGUMENTS}}}, True),
        ({}, False),
    ],
    ids=["preferred", "required", "another plugin", "v1alpha1", "empty"],
)
def test_a_descheduler_that_enforces_preferences_is_named(policy: dict[str, Any], found: bool) -> None:
    """It would evict each pod whose hint has expired. Other data of its ConfigMap are ignored."""
    text = yaml.safe_dump({"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", **policy})
    metadata = ObjectMeta(name="descheduler", namespace="kube-system")
    findings = list(descheduler_findings([ConfigMap(metadata=metadata, data={"policy.yaml": text, "x": "{a: [b"})]))

    assert found == any("kube-system/descheduler" in finding.message for finding in findings)
    assert {"error"} >= {finding.state for finding in findings}


def a_config_map(namespace: str, *texts: str) -> ConfigMap:
    data = {f"policy-{number}.yaml": text for number, text in enumerate(texts)}
    return ConfigMap(metadata=ObjectMeta(name="descheduler", namespace=namespace, labels=LABELS), data=data)


LABELS = {"app.kubernetes.io/name": "descheduler"}
ENFORCING = yaml.safe_dump({"kind": "DeschedulerPolicy", **profile("RemovePodsViolatingNodeAffinity", ARGUMENTS)})


@pytest.mark.parametrize(
    "text",
    [
        "kind: DeschedulerPolicy\nx: 0000-00-00\nprofiles: 7",
        "kind: DeschedulerPolicy\nprofiles: [7]",
        "kind: DeschedulerPolicy\nprofiles: [{pluginConfig: 7}]",
        "kind: DeschedulerPolicy\nprofiles: [{pluginConfig: [7]}]",
        "kind: DeschedulerPolicy\nstrategies: [a]",
        "kind: DeschedulerPolicy\nprofiles: &a [*a]",
        "kind: DeschedulerPolicy\nx: 1\nx: 2",
        "kind: DeschedulerPolicy\nx: " + "[" * 5_000,
        "kind: DeschedulerPolicy\nx: " + "1" * 5_000,
        "kind: DeschedulerPolicy\nx: [" + "1," * 500_000 + "]",
    ],
    ids=range(10),
)
def test_a_policy_that_cannot_be_read_is_named_and_hides_no_other(text: str) -> None:
    maps = [a_config_map("tenant", text), a_config_map("kube-system", text, ENFORCING)]
    findings = list(descheduler_findings(maps))

    assert [each.state for each in findings] == ["unknown", "unknown", "error"]
    assert "tenant/descheduler" in findings[0].message
    assert all(len(each.message) < 400 for each in findings)


def test_only_an_administrator_makes_an_error_of_the_cluster() -> None:
    """Any tenant can create a ConfigMap that looks like the one of a descheduler, in its own namespace."""
    [finding] = descheduler_findings([a_config_map("tenant", ENFORCING)])

    assert finding.state == "warning"
    assert "tenant/descheduler" in finding.message


async def test_config_maps_of_tenants_are_read_one_by_one_and_not_all() -> None:
    """The administrator's is read first."""
    clock = ManualClock()
    kube = MemoryKube(clock)
    for number in range(MOST_CONFIG_MAPS + 5):
        metadata = ObjectMeta(name=f"a-{number}", namespace="tenant", labels=LABELS)
        await kube.create(CONFIG_MAPS, ConfigMap(metadata=metadata, data={"policy.yaml": ENFORCING}))
    metadata = ObjectMeta(name=CONFIG_MAP[0], namespace=CONFIG_MAP[1])
    await kube.create(CONFIG_MAPS, ConfigMap(metadata=metadata, data={"policy.yaml": ENFORCING}))
    findings = await upstream_descheduler(kube)

    assert [each.state for each in findings] == ["error", *["warning"] * (MOST_CONFIG_MAPS - 1), "unknown"]
    assert "6 more ConfigMaps" in findings[-1].message


def test_an_edited_policy_is_a_warning() -> None:
    """With the names of the changed fields; those that the API server adds are none."""
    spec = policy("v1")["spec"] | {"matchConstraints": {"matchPolicy": "Equivalent"}}
    assert "ok" == policy_finding(WholeObject(spec=spec), "v1").state
    finding = policy_finding(WholeObject(spec=spec | {"failurePolicy": "Fail", "variables": []}), "v1")

    assert "warning" == finding.state
    assert "failurePolicy, variables" in finding.message


def hints_until(*ends: float) -> list[HintsObject]:
    hint = {"Deployment.web": Hint(prefer=(HintTerm(weight=1, nodes=(0,)),))}
    return [HintsObject(until=datetime.fromtimestamp(NOW + end, UTC), hints=hint) for end in ends]


@pytest.mark.parametrize(
    ("ends", "state", "message"),
    [
        ((100.0, -100.0, 200.0), "ok", "fresh for 2 workloads in 2 namespaces"),
        ((-600.0, -3_600.0), "error", "the newest have expired 10 min ago"),
        ((), "error", "none were written"),
    ],
)
def test_expired_hints_are_an_error(ends: tuple[float, ...], state: str, message: str) -> None:
    finding = freshness_finding(hints_until(*ends), NOW)

    assert state == finding.state
    assert message in finding.message


@pytest.mark.parametrize("finding", [freshness_finding([], NOW), freshness_finding(hints_until(-600.0), NOW)])
def test_hints_that_are_not_due_yet_are_no_error(finding: Finding) -> None:
    """Neither right after an installation, nor when a cluster that was off for a night has started."""
    early, late = until_due(finding, 95.0), until_due(finding, 0.0)

    assert "unknown" == early.state
    assert f"{finding.message}; the first ones after an installation or a start are due in 95 s" == early.message
    assert finding == late


async def with_policy(
    *, created: float = NOW - 3_600, effective: list[EffectiveConfiguration] | str = "not known", interval: float = 15.0
) -> Finding:
    """What is found without any hint. `created`: when the policy was created."""
    kube = MemoryKube(ManualClock(NOW))
    kube.served = {(API_GROUP, POLICY_KIND): ["v1"], (GROUP, KIND): ["v1alpha1"]}
    metadata = ObjectMeta(name="equipoise-hints", creation_timestamp=datetime.fromtimestamp(created, UTC))
    kube.put(whole(mutating_policies("v1")), WholeObject(metadata=metadata, spec=policy("v1")["spec"]))
    kube.put(mutating_bindings("v1"), Object(metadata=ObjectMeta(name="equipoise-hints")))
    scorer = ScorerSettings(hints=HintSettings(interval=Duration(interval)))
    settings = AllSettings(shared=Shared(placement=Placement(hints=True)), scorer=scorer)
    environment = Environment(settings=settings, clock=ManualClock(NOW), kube=kube, effective=effective)
    [finding] = [each for each in await hints(environment) if each.subject == "placement hints"]
    return finding


def started(service: ServiceName, ago: float, *, hints: bool = True, stopped: bool = False) -> EffectiveConfiguration:
    return EffectiveConfiguration(
        service=service,
        id=f"{service}-{ago:g}",
        version="1",
        hash="x",
        settings={"placement": {"hints": hints}},
        started_at=NOW - ago,
        at=NOW,
        stopped=stopped,
    )


RUNNING = [started("collector", 3_000), started("annotator", 3_000)]


@pytest.mark.parametrize(
    ("created", "effective", "state"),
    [
        (20, "not known: NATS does not respond", "unknown"),
        (3_000, "not known: NATS does not respond", "error"),
        (20, [], "unknown"),
        (3_000, [], "error"),
        (3_000, [*RUNNING, started("scorer", 20)], "unknown"),
        (3_000, [*RUNNING, started("scorer", 134)], "unknown"),
        (3_000, [*RUNNING, started("scorer", 136)], "error"),
        (3_000, [started("collector", 20), started("scorer", 900), started("annotator", 900)], "unknown"),
        (3_000, [started("collector", 900), started("scorer", 900), started("annotator", 20)], "unknown"),
        (20, [*RUNNING, started("scorer", 3_000)], "unknown"),
        (3_000, [*RUNNING, started("scorer", 3_000), started("scorer", 20)], "error"),
        (3_000, [*RUNNING, started("scorer", 900, stopped=True), started("scorer", 20)], "error"),
        (3_000, [*RUNNING, started("scorer", 900, hints=False), started("scorer", 20)], "unknown"),
        (3_000, [*RUNNING, started("scorer", 900), started("descheduler", 20)], "error"),
        (3_000, [*RUNNING, started("scorer", -3_600)], "error"),
    ],
    ids=[
        "just installed, without NATS",
        "installed long ago, without NATS",
        "no service runs yet",
        "no service runs",
        "a scorer that has just started, as its image was pulled for long",
        "just before the end",
        "just after it",
        "a new collector",
        "a new annotator",
        "the policy was created again",
        "one more scorer",
        "a scorer that fails again and again",
        "hints have just been enabled",
        "another service",
        "a clock that is an hour ahead",
    ],
)
async def test_the_first_hints_are_due_two_minutes_after_the_start(
    created: float, effective: list[EffectiveConfiguration] | str, state: str
) -> None:
    """And the interval of the scorer: of the policy, and of the services without which there are none."""
    finding = await with_policy(created=NOW - created, effective=effective)

    assert state == finding.state, finding


async def test_the_interval_of_the_scorer_delays_the_first_hints() -> None:
    finding = await with_policy(created=NOW - 300, interval=600.0)

    assert ("unknown", True) == (finding.state, "due in 7 min" in finding.message)


@pytest.mark.parametrize("end", [100.0, -600.0])
def test_an_object_without_hints_counts_as_none_written(end: float) -> None:
    """Its time is not that of hints: `equipoise status` does not count it either."""
    empty = HintsObject(until=datetime.fromtimestamp(NOW + end, UTC))

    assert "none were written: pods get none" == freshness_finding([empty], NOW).message


@pytest.mark.parametrize("served", [[], ["v1"]])
async def test_without_hints_there_is_nothing_to_check(served: list[str]) -> None:
    """Neither in an old cluster nor in one that could have them."""
    clock = ManualClock()
    kube = MemoryKube(clock)
    kube.served = {(API_GROUP, POLICY_KIND): served}
    [finding] = await hints(Environment(settings=AllSettings(), clock=clock, kube=kube))

    assert ("ok", True) == (finding.state, finding.message.startswith("not used"))


def a_configuration(*, pods: bool = True, state: str = "called since 09:00") -> WebhookConfiguration:
    entries = webhooks(ca=b"PEM", namespace=NAMESPACE, port=443, hinted=["web", "api"], pods=pods)
    return WebhookConfiguration(
        metadata=ObjectMeta(name="equipoise-hints", annotations={STATE: state}), webhooks=entries
    )


NAMESPACE = AllSettings().shared.kubernetes.namespace


@pytest.mark.parametrize(
    ("state", "found"),
    [
        ("not called yet", "unknown"),
        ("", "unknown"),
        ("called since 09:00", "unknown"),
        ("not called since 09:00: new pods waited 1.0 s for it", "error"),
    ],
)
def test_a_webhook_that_is_not_called_before_hints_are_due_is_no_error(state: str, found: str) -> None:
    """It must respond for a minute first, and have a namespace with hints. A slow one is an error at any time."""
    configuration = a_configuration(pods=False, state=state)

    assert found == webhook_finding(configuration, 60.0).state
    assert "error" == webhook_finding(configuration).state


def test_a_ca_that_is_not_written_yet_is_no_error() -> None:
    """The chart creates the configuration without webhooks."""
    secret = SecretObject(data={"ca.crt": base64.b64encode(b"PEM").decode()})

    assert "unknown" == ca_finding(WebhookConfiguration(), secret, NAMESPACE, 60.0).state
    assert "error" == ca_finding(WebhookConfiguration(), secret, NAMESPACE).state
    assert "error" == ca_finding(a_configuration(), SecretObject(), NAMESPACE, 60.0).state


async def with_webhook(kube: MemoryKube) -> dict[str, tuple[str, str]]:
    """State and message by subject."""
    kube.served[GROUP, KIND] = ["v1alpha1"]
    hinting = HintWriteSettings(admission="webhook")
    settings = AllSettings(shared=Shared(placement=Placement(hints=True)), annotator=AnnotatorSettings(hints=hinting))
    environment = Environment(settings=settings, clock=ManualClock(NOW), kube=kube)
    return {each.subject: (each.state, each.message) for each in await hints(environment)}


def test_a_webhook_that_is_called_is_shown_with_its_namespaces() -> None:
    finding = webhook_finding(a_configuration())

    assert ("ok", "called since 09:00, in 2 namespaces") == (finding.state, finding.message)


@pytest.mark.parametrize("state", ["not called since 09:00: new pods waited 1.0 s for it", "not called yet"])
def test_a_webhook_that_is_not_called_is_an_error_with_its_reason(state: str) -> None:
    finding = webhook_finding(a_configuration(pods=False, state=state))

    assert ("error", f"{state}: pods get no hints") == (finding.state, finding.message)


async def test_a_missing_configuration_of_the_webhook_is_an_error() -> None:
    found = await with_webhook(MemoryKube(ManualClock()))

    assert [("error", "there is no MutatingWebhookConfiguration equipoise-hints: pods get no hints")] == [
        *found.values()
    ]


@pytest.mark.parametrize(
    ("data", "state", "message"),
    [
        ({"ca.crt": b"PEM"}, "ok", f"is that of Secret {NAMESPACE}/{SECRET}"),
        ({"ca.crt": b"another"}, "error", "the API server does not trust the webhook"),
        ({}, "error", "has no ca.crt"),
        (None, "unknown", "there is no Secret"),
    ],
)
async def test_an_exchanged_ca_is_named(data: dict[str, bytes] | None, state: str, message: str) -> None:
    """The one in the configuration is compared with the one in the Secret."""
    kube = MemoryKube(ManualClock())
    kube.put(WEBHOOK_CONFIGURATIONS, a_configuration())
    if data is not None:
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        kube.put(SECRETS, SecretObject(metadata=ObjectMeta(name=SECRET, namespace=NAMESPACE), data=encoded))
    found = (await with_webhook(kube))["CA of the webhook of hints"]

    assert state == found[0]
    assert message in found[1]


async def test_a_secret_that_may_not_be_read_is_unknown() -> None:
    """As in `helm test`, which may read none. Everything else is checked."""
    kube = MemoryKube(ManualClock())
    kube.put(WEBHOOK_CONFIGURATIONS, a_configuration())
    kube.refuse("get", status=403, resource="secrets")
    found = await with_webhook(kube)

    assert "unknown" == found["CA of the webhook of hints"][0]
    assert "ok" == found["webhook of hints"][0]
    assert "error" == found["placement hints"][0]
