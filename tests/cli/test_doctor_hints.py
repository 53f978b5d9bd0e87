"""What `equipoise doctor` finds about placement hints. tests/e2e/test_placement_hints.py has an API server."""

from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from builders import NOW

from equipoise.cli.doctor.checks.hints import descheduler_findings, freshness_finding, hints, policy_finding
from equipoise.cli.doctor.environment import Environment
from equipoise.cli.service_settings import AllSettings
from equipoise.cli.whole_objects import WholeObject
from equipoise.contracts.hints.hints_object import Hint, HintsObject, HintTerm
from equipoise.contracts.hints.policy import policy
from equipoise.contracts.kubernetes.mutating_policy import API_GROUP, POLICY_KIND
from equipoise.contracts.kubernetes.objects import ConfigMap, ObjectMeta
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


@pytest.mark.parametrize("served", [[], ["v1"]])
async def test_without_hints_there_is_nothing_to_check(served: list[str]) -> None:
    """Neither in an old cluster nor in one that could have them."""
    clock = ManualClock()
    kube = MemoryKube(clock)
    kube.served = {(API_GROUP, POLICY_KIND): served}
    [finding] = await hints(Environment(settings=AllSettings(), clock=clock, kube=kube))

    assert ("ok", True) == (finding.state, finding.message.startswith("not used"))
