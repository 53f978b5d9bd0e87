"""What `equipoise doctor` finds about co-location. tests/e2e/test_colocation_profiles.py has an API server."""

from typing import Any

import pytest

from equipoise.cli.doctor.checks.colocation import (
    agent_finding,
    colocation,
    extended_name_findings,
    policy_finding,
    profile_findings,
    refusal_findings,
    selected_namespaces,
    setting_findings,
)
from equipoise.cli.doctor.environment import Environment
from equipoise.cli.service_settings import AllSettings, all_settings
from equipoise.contracts.colocation.policy_parts import POLICY_VERSION, VERSION
from equipoise.contracts.colocation.profile import Profile, manifests
from equipoise.contracts.colocation.profile_policy import profile_policy
from equipoise.contracts.kubernetes.objects.cluster import ConfigMap, Namespace
from equipoise.contracts.kubernetes.objects.metadata import Condition, ObjectMeta, WholeObject
from equipoise.contracts.kubernetes.objects.node import Node, NodeStatus
from equipoise.contracts.kubernetes.objects.pod import Pod, PodSpec, PodStatus
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

PROFILE = Profile(name="offline", namespace_selector={"matchLabels": {"team": "offline"}})
CONFIG_MAP, BINDING, _ = manifests(PROFILE, "v1", "equipoise-system")
METADATA = BINDING["metadata"]
OBJECT = WholeObject(
    metadata=ObjectMeta(name=METADATA["name"], labels=METADATA["labels"], annotations=METADATA["annotations"]),
    spec=BINDING["spec"],
)


def faults(changes: dict[str, str], *classes: str) -> list[str]:
    stored = ConfigMap(data=CONFIG_MAP["data"] | changes)
    return [each.message for each in profile_findings(OBJECT, stored, set(classes))]


@pytest.mark.parametrize("served", [[], ["v1"]])
async def test_without_profiles_there_is_nothing_to_check(served: list[str]) -> None:
    clock = ManualClock()
    kube = MemoryKube(clock)
    kube.served = {("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): served}
    [finding] = await colocation(Environment(settings=AllSettings(), clock=clock, kube=kube))

    assert ("ok", True) == (finding.state, finding.message.startswith("not used"))


def test_a_policy_of_a_newer_release_is_a_warning() -> None:
    """As is an edited one."""
    spec = profile_policy("v1")["spec"]

    def installed(version: str, **changes: Any) -> str:
        metadata = ObjectMeta(annotations={POLICY_VERSION: version})
        return policy_finding(WholeObject(metadata=metadata, spec=spec | changes), "v1").message

    assert "is the one of this release" == installed(str(VERSION))
    assert f"has the version {VERSION + 1}; this release has {VERSION}" == installed(str(VERSION + 1), variables=[])
    assert installed(str(VERSION), failurePolicy="Fail").endswith("in failurePolicy")
    assert installed("").endswith(POLICY_VERSION)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"percent": "abc"}, "percent: 'abc' is not a whole number"),
        ({"qosClass": "best"}, "qosClass: 'best' is not one of"),
        ({"qosClass": "LSR"}, "LSR goes with prod, not with the band batch"),
        ({"priorityClassName": "equipoise-huge"}, "priorityClassName: 'equipoise-huge' is not equipoise-BAND"),
        ({"resources": "mid"}, "resources: 'mid' is not keep"),
        ({"terminationGracePeriodSeconds": "-5"}, "terminationGracePeriodSeconds: '-5'"),
        ({"labels": "a=b c"}, "labels: 'a=b c' is not a valid key=value"),
        ({"annotations": "abc"}, "annotations: 'abc' is not a valid key=value"),
    ],
)
def test_an_invalid_config_map_is_an_error_that_names_the_value(changes: dict[str, str], fault: str) -> None:
    (found, *_) = faults(changes, "equipoise-batch")

    assert found.startswith("ConfigMap equipoise-system/equipoise-colocation-offline: ")
    assert fault in found


def test_a_missing_config_map_or_class_is_an_error() -> None:
    assert [] == faults({}, "equipoise-batch")
    assert ["there is no PriorityClass equipoise-batch: its pods are refused"] == faults({})
    (missing,) = profile_findings(OBJECT, None, {"equipoise-batch"})
    assert "there is no ConfigMap equipoise-system/equipoise-colocation-offline" in missing.message


def test_what_refuses_pods_without_cpu_requests_is_an_error() -> None:
    """In the namespaces of profiles: minimum and maximum of a LimitRange, and a ResourceQuota on cpu or memory."""
    metadata = ObjectMeta(name="x", namespace="shop")
    limits = [
        WholeObject(metadata=metadata, spec={"limits": [{"type": "Container", bound: {"cpu": "1"}}]})
        for bound in ("min", "max", "default")
    ]
    quotas = [
        WholeObject(metadata=metadata, spec=spec)
        for spec in (
            {"hard": {"requests.cpu": "1", "pods": "5"}},
            {"hard": {"requests.cpu": "1"}, "scopes": ["NotBestEffort"]},
            {"hard": {"pods": "5"}},
        )
    ]
    found = [each.message for each in refusal_findings({"shop"}, limits, quotas)]

    assert ["has min or max of cpu"] * 2 + ["limits requests.cpu"] == [each.partition(":")[0] for each in found]
    assert [] == list(refusal_findings({"other"}, limits, quotas))


def test_the_namespaces_of_a_profile_are_those_that_its_binding_selects() -> None:
    def labeled(name: str, team: str) -> Namespace:
        return Namespace(metadata=ObjectMeta(name=name, labels={"team": team, "kubernetes.io/metadata.name": name}))

    places = [labeled("a", "offline"), labeled("b", "web"), labeled("kube-system", "offline")]

    assert {"a"} == selected_namespaces(OBJECT, places)


def test_extended_names_are_a_warning() -> None:
    """A restart of a kubelet can set them to 0, unlike names of kubernetes.io."""

    def node(name: str) -> Node:
        return Node(status=NodeStatus(allocatable={name: "1", "cpu": "1"}))

    (finding,) = extended_name_findings([node("example.com/batch-cpu"), node("kubernetes.io/batch-cpu")])

    assert "1 node offer example.com/batch-cpu" in finding.message.replace("offers", "offer")
    assert [] == list(extended_name_findings([node("kubernetes.io/mid-memory")]))


def test_nodes_that_offer_resources_without_a_ready_agent_are_a_warning() -> None:
    """A node that offers nothing needs none."""

    def node(name: str, *resources: str) -> Node:
        return Node(metadata=ObjectMeta(name=name), status=NodeStatus(allocatable=dict.fromkeys(resources, "1")))

    def agent(name: str, ready: str) -> Pod:
        conditions = [Condition(type="Ready", status=ready)]
        return Pod(spec=PodSpec(node_name=name), status=PodStatus(conditions=conditions))

    nodes = [node("node-1", "kubernetes.io/batch-cpu"), node("node-2", "kubernetes.io/mid-cpu"), node("node-3", "cpu")]

    none = agent_finding(nodes, [])
    some = agent_finding(nodes, [agent("node-1", "True"), agent("node-2", "False")])
    everywhere = agent_finding(nodes, [agent("node-1", "True"), agent("node-2", "True")])

    assert ["warning", "warning", "ok"] == [each.state for each in (none, some, everywhere)]
    assert "on 1 of 2 nodes with amounts, for example on node-2" in some.message
    assert "agent.enabled" in none.fix


def test_settings_that_need_the_reclaimer_are_a_warning_without_it() -> None:
    """A scorer would otherwise silently score batch pods as any others."""
    document = {"scorer": {"reclaimed": {"enabled": True}}}

    [alone] = setting_findings(all_settings(document))
    together = list(setting_findings(all_settings(document | {"reclaimer": {"enabled": True}})))

    assert "scorer.reclaimed.enabled has no effect: reclaimer.enabled is false" == alone.message
    assert not together
