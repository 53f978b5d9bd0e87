"""From a profile of the configuration to its framework."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scheduling.pods import a_node, a_pod
from scheduling.storage import a_claim, a_class, a_storage, a_volume, uses

from equipoise.contracts.kubernetes.objects.metadata import LabelSelector
from equipoise.contracts.kubernetes.objects.pod import TopologySpreadConstraint
from equipoise.scheduling.configuration import (
    InvalidConfiguration,
    SchedulerConfiguration,
    default_configuration,
    read_configuration,
)
from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.status import SUCCESS, PluginStatus
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.plugins.handle import Handle
from equipoise.scheduling.plugins.table import NOT_BUILT, PLUGINS, Factory
from equipoise.scheduling.profile import PROTOCOLS, build_framework, build_frameworks, build_plugins
from equipoise.scheduling.scheduler import Scheduler
from equipoise.scheduling.settings.plugin_sets import DEFAULT_PLUGINS

HANDLE = Handle()


class Mine:
    """A plugin of the program that filters and scores."""

    name = "Mine"

    def __init__(self, args: Any = None) -> None:
        self.args = args

    def filter_node(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, row: int) -> PluginStatus:
        return SUCCESS

    def score_node(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, row: int) -> int:
        return 100 if snapshot.name(row) == (self.args or {}).get("best") else 0


class ByName:
    """Another order of the queue."""

    name = "ByName"

    def sort_key(self, pod: PodInfo, added_at: float) -> tuple[float, ...]:
        return (float(len(pod.name)),)


REGISTERED: Mapping[str, Factory] = {
    "Mine": lambda args, handle: Mine(args),
    "ByName": lambda args, handle: ByName(),
}


def read(*profiles: dict[str, Any]) -> SchedulerConfiguration:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return read_configuration(head | {"profiles": list(profiles)}, registered=REGISTERED.keys())


def names(plugins: dict[str, Any]) -> dict[str, list[str]]:
    """By extension point, in the order of calls."""
    found = build_plugins(read({"plugins": plugins}).profiles[0], HANDLE, REGISTERED)
    return {point: [plugin.name for plugin in each] for point, each in found.points.items()}


def only(*enabled: str, **points: Any) -> dict[str, list[str]]:
    """Of these plugins at all extension points instead of the default ones."""
    everywhere = {"enabled": [{"name": name} for name in enabled], "disabled": [{"name": "*"}]}
    return names({"multiPoint": everywhere} | points)


def test_every_default_plugin_is_built_or_listed() -> None:
    """And no other; each has the name by which the configuration knows it."""
    defaults = {each.name for each in DEFAULT_PLUGINS}

    assert defaults - PLUGINS.keys() == {"DefaultBinder", "NodeDeclaredFeatures"}
    assert PLUGINS.keys() <= defaults
    assert not PLUGINS.keys() & NOT_BUILT
    built = build_plugins(default_configuration().profiles[0], HANDLE)
    assert {plugin.name for each in built.points.values() for plugin in each} == set(PLUGINS)


def test_the_default_framework_calls_plugins_as_kube_scheduler_does() -> None:
    """At each extension point in the order of the configuration, with the default weights."""
    framework = build_framework(default_configuration().profiles[0], HANDLE)

    assert [plugin.name for plugin in framework.plugins("filter")] == [
        "NodeName",
        "NodeUnschedulable",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
    ]
    assert {plugin.name: framework.weight(plugin.name) for plugin in framework.plugins("score")} == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "VolumeBinding": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }
    assert [plugin.name for plugin in framework.plugins("postFilter")] == ["DynamicResources", "DefaultPreemption"]
    assert [plugin.name for plugin in framework.plugins("queueSort")] == ["PrioritySort"]


# Extension points


def test_a_plugin_is_enabled_wherever_it_implements_something() -> None:
    """With multiPoint."""
    found = only("PrioritySort", "Mine")

    assert {point: each for point, each in found.items() if each} == {
        "queueSort": ["PrioritySort"],
        "filter": ["Mine"],
        "score": ["Mine"],
    }


def test_a_plugin_can_be_disabled_at_one_extension_point() -> None:
    """Or all of them can."""
    assert names({"score": {"disabled": [{"name": "ImageLocality"}]}})["score"][-1] == "NodeResourcesBalancedAllocation"
    assert names({"score": {"enabled": [{"name": "Mine"}], "disabled": [{"name": "*"}]}})["score"] == ["Mine"]


def test_plugins_of_an_extension_point_come_first_if_they_are_also_everywhere() -> None:
    """Then the others that are everywhere, then those of the extension point only."""
    score = {"enabled": [{"name": "Mine"}, {"name": "ImageLocality"}, {"name": "TaintToleration"}]}

    found = only("PrioritySort", "TaintToleration", "NodeAffinity", "ImageLocality", score=score)

    assert found["score"] == ["ImageLocality", "TaintToleration", "NodeAffinity", "Mine"]


def test_the_weight_of_the_extension_point_takes_precedence() -> None:
    """A plugin without a weight has 1."""
    plugins = {
        "multiPoint": {"enabled": [{"name": "ImageLocality", "weight": 4}, {"name": "NodeAffinity", "weight": 0}]},
        "score": {"enabled": [{"name": "ImageLocality", "weight": 9}, {"name": "Mine"}]},
    }
    framework = build_framework(read({"plugins": plugins}).profiles[0], HANDLE, REGISTERED)

    weights = {name: framework.weight(name) for name in ("ImageLocality", "NodeAffinity", "Mine", "TaintToleration")}
    assert weights == {"ImageLocality": 9, "NodeAffinity": 1, "Mine": 1, "TaintToleration": 3}


everywhere = st.lists(st.sampled_from(["PrioritySort", "Mine", "ImageLocality", "TaintToleration"]), unique=True)


@given(multi=everywhere, own=everywhere, disabled=st.sets(st.sampled_from(["Mine", "ImageLocality", "*"])))
def test_each_plugin_is_called_once_at_an_extension_point(multi: list[str], own: list[str], disabled: set[str]) -> None:
    """All that the extension point enables, and those of multiPoint that it does not disable."""
    score = [name for name in own if name != "PrioritySort"]
    found = only(
        "PrioritySort",
        *(name for name in multi if name != "PrioritySort"),
        score={"enabled": [{"name": name} for name in score], "disabled": [{"name": name} for name in disabled]},
    )["score"]

    kept = set() if "*" in disabled else set(multi) - disabled - {"PrioritySort"}
    assert sorted(found) == sorted(kept | set(score))


# Faults


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        (
            {"filter": {"enabled": [{"name": "ImageLocality"}]}},
            "plugins.filter: the plugin ImageLocality has no filter",
        ),
        (
            {"multiPoint": {"disabled": [{"name": "PrioritySort"}]}},
            "plugins.queueSort: one plugin orders the queue, not 0 (none)",
        ),
        (
            {"queueSort": {"enabled": [{"name": "ByName"}]}},
            "plugins.queueSort: one plugin orders the queue, not 2 (PrioritySort, ByName)",
        ),
    ],
)
def test_a_profile_that_cannot_be_used_is_refused(plugins: dict[str, Any], expected: str) -> None:
    """With its name, and what is wrong."""
    profile = read({"schedulerName": "mine", "plugins": plugins}).profiles[0]

    with pytest.raises(InvalidConfiguration) as caught:
        build_framework(profile, HANDLE, REGISTERED)

    assert caught.value.faults == (f"profile mine: {expected}",)


def test_a_plugin_of_the_program_needs_a_name_of_its_own() -> None:
    """Not that of a default plugin."""
    with pytest.raises(InvalidConfiguration, match="the plugin NodeName exists already"):
        build_framework(default_configuration().profiles[0], HANDLE, {"NodeName": REGISTERED["Mine"]})


def test_a_plugin_that_is_not_registered_is_refused() -> None:
    """Although the configuration was read with its name."""
    profile = read({"plugins": {"score": {"enabled": [{"name": "Mine"}]}}}).profiles[0]

    with pytest.raises(InvalidConfiguration, match='"Mine" is not a plugin'):
        build_framework(profile, HANDLE)


def test_all_profiles_order_the_queue_alike() -> None:
    """There is one queue."""
    other = {"queueSort": {"enabled": [{"name": "ByName"}], "disabled": [{"name": "*"}]}}

    assert build_frameworks(read({"schedulerName": "a"}, {"schedulerName": "b"}), HANDLE).keys() == {"a", "b"}
    with pytest.raises(InvalidConfiguration, match=r"\(a: PrioritySort, b: ByName\)"):
        build_frameworks(read({"schedulerName": "a"}, {"schedulerName": "b", "plugins": other}), HANDLE, REGISTERED)


# What plugins are given


def score_of(
    plugin: str, args: dict[str, Any], pod: PodInfo, snapshot: ClusterSnapshot, handle: Handle = HANDLE
) -> list[int]:
    """Weighted scores of one plugin with these arguments."""
    profile = read({"pluginConfig": [{"name": plugin, "args": args}]}).profiles[0]
    found = build_framework(profile, handle).score(CycleState(), pod, snapshot, snapshot.rows)
    return found.raw[plugin].tolist() if plugin in found.raw else []


A_CLUSTER = ClusterSnapshot([a_node("small", cpu="2", memory="8Gi"), a_node("large", cpu="4", memory="8Gi")])


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ({"type": "LeastAllocated"}, [50, 75]),
        ({"type": "MostAllocated"}, [50, 25]),
        (
            {
                "type": "RequestedToCapacityRatio",
                "requestedToCapacityRatio": {
                    "shape": [{"utilization": 0, "score": 10}, {"utilization": 50, "score": 0}]
                },
            },
            [0, 50],
        ),
    ],
)
def test_node_resources_fit_has_the_strategy_of_the_configuration(
    strategy: dict[str, Any], expected: list[int]
) -> None:
    """A pod requests 1 core of 2 and of 4."""
    args = {"scoringStrategy": strategy | {"resources": [{"name": "cpu"}]}}

    assert score_of("NodeResourcesFit", args, a_pod(requests={"cpu": "1"}), A_CLUSTER) == expected


def test_plugins_have_the_arguments_of_the_configuration() -> None:
    """Each those of its name; a plugin of the program gets them as they are."""
    preferred = [
        {"weight": 7, "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["large"]}]}}
    ]
    affinity = {"addedAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    assert score_of("NodeAffinity", affinity, a_pod(), A_CLUSTER) == [0, 7]
    balance = {"resources": [{"name": "cpu"}]}
    assert score_of("NodeResourcesBalancedAllocation", balance, a_pod(requests={"cpu": "1"}), A_CLUSTER) == [75, 75]
    assert score_of("NodeResourcesBalancedAllocation", balance, a_pod(requests={"memory": "1Gi"}), A_CLUSTER) == []

    plugins = {"score": {"enabled": [{"name": "Mine", "weight": 50}]}}
    profile = read({"plugins": plugins, "pluginConfig": [{"name": "Mine", "args": {"best": "small"}}]}).profiles[0]
    framework = build_framework(profile, HANDLE, REGISTERED)
    assert Scheduler(framework).schedule(a_pod(requests={"cpu": "1"}), A_CLUSTER, Zero()).node == "small"


def test_spreading_has_the_constraints_of_the_configuration() -> None:
    """For pods without constraints, among those of their workload."""
    snapshot = ClusterSnapshot([a_node("a", labels={"rack": "1"}), a_node("b", labels={"rack": "2"})])
    snapshot.add_pod(a_pod("other", labels={"app": "web"}), 0)
    constraint = {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}
    args = {"defaultingType": "List", "defaultConstraints": [constraint]}
    profile = read({"pluginConfig": [{"name": "PodTopologySpread", "args": args}]}).profiles[0]
    handle = Handle(default_selector=lambda pod: LabelSelector(match_labels={"app": "web"}))

    assert TopologySpreadConstraint(topology_key="rack") in profile.arguments["PodTopologySpread"].default_constraints
    pod = a_pod(labels={"app": "web"})
    assert Scheduler(build_framework(profile, handle)).schedule(pod, snapshot, Zero()).feasible == ["b"]
    assert len(Scheduler(build_framework(profile, HANDLE)).schedule(pod, snapshot, Zero()).feasible) == 2


class Zero:
    """A source of random numbers."""

    def random(self) -> float:
        return 0.0


def test_preemption_uses_the_framework_that_it_is_part_of() -> None:
    """All of its filters."""
    snapshot = ClusterSnapshot([a_node("a", cpu="1")])
    snapshot.add_pod(a_pod("victim", {"cpu": "1"}), 0)
    framework = build_framework(default_configuration().profiles[0], HANDLE)

    found = Scheduler(framework).schedule(a_pod("new", {"cpu": "1"}, priority=10), snapshot, Zero())

    assert found.preemption is not None
    assert (found.preemption.node, [each.name for each in found.preemption.victims]) == ("a", ["victim"])


def test_the_plugins_of_volumes_read_the_objects_of_the_handle() -> None:
    """A pod whose volume is on one node runs there."""
    snapshot = ClusterSnapshot([a_node("a"), a_node("b")])
    storage = a_storage(
        claims=[a_claim(storage_class="local")],
        volumes=[a_volume(storage_class="local", node_labels={"kubernetes.io/hostname": ["b"]})],
        classes=[a_class("local")],
    )
    framework = build_framework(default_configuration().profiles[0], Handle(volumes=storage))

    found = Scheduler(framework).schedule(a_pod(volumes=uses("data")), snapshot, Zero())

    assert found.node == "b"
    assert found.diagnosis is not None
    assert found.diagnosis.reasons() == {"node(s) didn't find available persistent volumes to bind": 1}


def test_plugins_of_the_binding_cycle_are_found() -> None:
    """The framework of the scheduling cycle does not call them; the program does."""
    built = build_plugins(default_configuration().profiles[0], HANDLE)

    assert [plugin.name for plugin in built.points["reserve"]] == ["VolumeBinding"]
    assert built.points.keys() == PROTOCOLS.keys()
