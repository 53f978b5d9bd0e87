"""What `equipoise doctor` finds about placement hints. tests/e2e/test_placement_hints.py has an API server."""

from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from builders import NOW

from equipoise.cli.doctor.checks.hints import (
    CONFIG_MAP,
    MOST_CONFIG_MAPS,
    descheduler_findings,
    freshness_finding,
    hints,
    policy_finding,
    upstream_descheduler,
)
from equipoise.cli.doctor.environment import Environment
from equipoise.cli.doctor.whole_objects import WholeObject
from equipoise.cli.service_settings import AllSettings
from equipoise.contracts.hints.hints_object import Hint, HintsObject, HintTerm
from equipoise.contracts.hints.policy import policy
from equipoise.contracts.kubernetes.mutating_policy import API_GROUP, POLICY_KIND
from equipoise.contracts.kubernetes.objects.cluster import ConfigMap
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.runtime.kubernetes.client import CONFIG_MAPS
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
