"""Reading a KubeSchedulerConfiguration."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.contracts.kubernetes.objects.pod import TopologySpreadConstraint
from equipoise.scheduling.configuration import (
    InvalidConfiguration,
    SchedulerConfiguration,
    default_configuration,
    read_configuration,
)
from equipoise.scheduling.plugins.resources.resource_allocation import ResourceWeight, ShapePoint
from equipoise.scheduling.settings.extenders import HttpExtender, ManagedResource, TlsSettings
from equipoise.scheduling.settings.plugin_arguments import (
    ARGUMENTS,
    BalancedAllocationArgs,
    DefaultPreemptionArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    VolumeBindingArgs,
    is_label_key,
)
from equipoise.scheduling.settings.plugin_sets import EnabledPlugin, PluginSet, merged

HEAD: dict[str, Any] = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def read(**fields: Any) -> SchedulerConfiguration:
    return read_configuration(HEAD | fields)


def read_profile(**fields: Any) -> SchedulerConfiguration:
    return read(profiles=[fields])


def arguments(plugin: str, **args: Any) -> Any:
    found = read_profile(pluginConfig=[{"name": plugin, "args": args}])
    return found.profiles[0].arguments[plugin]


def faults(**fields: Any) -> list[str]:
    with pytest.raises(InvalidConfiguration) as caught:
        read(**fields)
    return list(caught.value.faults)


def faults_of(plugin: str, **args: Any) -> list[str]:
    """Without the path of the arguments."""
    place = "profiles[0].pluginConfig[0].args."
    found = faults(profiles=[{"pluginConfig": [{"name": plugin, "args": args}]}])
    assert all(each.startswith(place) for each in found)
    return [each.removeprefix(place) for each in found]


# Defaults


def test_the_default_is_one_profile_with_the_plugins_of_kube_scheduler() -> None:
    """In the order of version 1.37, with their weights."""
    [profile] = default_configuration().profiles

    enabled = [(each.name, each.weight) for each in profile.plugins["multiPoint"].enabled]
    assert profile.scheduler_name == "default-scheduler"
    assert [name for name, _ in enabled] == [
        "SchedulingGates",
        "PrioritySort",
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
        "DynamicResources",
        "DefaultPreemption",
        "NodeResourcesBalancedAllocation",
        "ImageLocality",
        "DefaultBinder",
        "NodeDeclaredFeatures",
    ]
    assert {name: weight for name, weight in enabled if weight} == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "DynamicResources": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }


def test_plugins_have_the_default_arguments_of_kube_scheduler() -> None:
    """Also where the document has an empty set of them."""
    expected = {
        "NodeResourcesFit": NodeResourcesFitArgs(),
        "NodeResourcesBalancedAllocation": BalancedAllocationArgs(),
        "NodeAffinity": NodeAffinityArgs(),
        "InterPodAffinity": InterPodAffinityArgs(hard_pod_affinity_weight=1),
        "PodTopologySpread": PodTopologySpreadArgs(),
        "VolumeBinding": VolumeBindingArgs(bind_timeout=600),
        "DefaultPreemption": DefaultPreemptionArgs(min_candidate_nodes_percentage=10, min_candidate_nodes_absolute=100),
    }

    assert default_configuration().profiles[0].arguments == expected
    assert {name: arguments(name) for name in ARGUMENTS} == expected


def test_a_document_is_a_mapping_or_yaml() -> None:
    """What concerns the program is accepted."""
    text = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: 8
leaderElection: {leaderElect: true}
clientConnection: {qps: 100}
percentageOfNodesToScore: 30
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 20
profiles:
- percentageOfNodesToScore: 0
"""
    found = read_configuration(text)

    assert (found.initial_backoff, found.max_backoff, found.percentage_of_nodes_to_score) == (2, 20, 30)
    assert found.percentage_of(found.profiles[0]) == 0
    assert found.percentage_of(default_configuration().profiles[0]) == 30


def test_profiles_are_found_by_the_name_of_their_scheduler() -> None:
    """A pod with another name is that of another scheduler."""
    found = read(profiles=[{"schedulerName": "a"}, {"schedulerName": "b", "percentageOfNodesToScore": 7}])

    profile = found.profile("b")
    assert profile is not None
    assert found.percentage_of(profile) == 7
    assert found.profile("c") is None


# Faults of the document


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"apiVersion": "v1"}, 'apiVersion: "v1" is not allowed: expected one of kubescheduler.config.k8s.io/v1'),
        ({"kind": None}, "kind: null is not allowed: expected KubeSchedulerConfiguration"),
        ({"percentageOfNodesToScore": 101}, "percentageOfNodesToScore: 101 is not allowed: expected 0 to 100"),
        (
            {"percentageOfNodesToScore": True},
            "percentageOfNodesToScore: true is not allowed: expected a whole number, 0 to 100",
        ),
        ({"parallelism": 0}, "parallelism: 0 is not allowed: expected 1 or more"),
        ({"podInitialBackoffSeconds": 0}, "podInitialBackoffSeconds: 0 is not allowed: expected 1 or more"),
        (
            {"podInitialBackoffSeconds": 11},
            "podMaxBackoffSeconds: 10 is not allowed: expected podInitialBackoffSeconds (11) or more",
        ),
        ({"profiles": {}}, "profiles: {} is not allowed: expected a list"),
        ({"profiles": [3]}, "profiles[0]: 3 is not allowed: expected a mapping"),
        ({"profiles": [{"schedulerName": 3}]}, "profiles[0].schedulerName: 3 is not allowed: expected a text"),
        (
            {"profiles": [{"percentageOfNodesToScore": -1}]},
            "profiles[0].percentageOfNodesToScore: -1 is not allowed: expected 0 to 100",
        ),
    ],
)
def test_a_fault_names_the_field_the_value_and_what_is_allowed(fields: dict[str, Any], expected: str) -> None:
    """One line per fault."""
    assert faults(**fields) == [expected]


def test_all_faults_are_named_at_once() -> None:
    """A user corrects them in one step."""
    found = faults(percentageOfNodesToScore=101, parallelism=0, profile=[])

    assert [each.partition(":")[0] for each in found] == ["percentageOfNodesToScore", "parallelism", "profile"]
    assert "there is no such field: did you mean profiles? known are " in found[2]


def test_several_profiles_need_different_names() -> None:
    """Only a single one has the default name."""
    found = faults(profiles=[{"schedulerName": "a"}, {"schedulerName": "a"}, {}])

    assert found == [
        'profiles[1].schedulerName: "a" is the name of two profiles',
        "profiles[2].schedulerName: null is not allowed: expected a name, as there are several profiles",
    ]


@pytest.mark.parametrize(
    "text", ["a: [", "apiVersion: x\napiVersion: y", "{*a: b}"], ids=["incomplete", "key twice", "alias"]
)
def test_a_text_that_is_no_document_is_refused(text: str) -> None:
    """With where the fault is."""
    with pytest.raises(InvalidConfiguration, match="the document is no YAML"):
        read_configuration(text)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda each: st.lists(each, max_size=3)
)
paths = st.sampled_from(
    [
        "profiles",
        "extenders",
        "percentageOfNodesToScore",
        "plugins",
        "pluginConfig",
        "score",
        "enabled",
        "args",
        "weight",
    ]
)


@given(
    document=st.recursive(values, lambda each: st.dictionaries(paths, each, max_size=4) | st.lists(each, max_size=3))
)
def test_any_document_is_read_or_refused(document: Any) -> None:
    """No value makes the reader fail otherwise."""
    fields = document if isinstance(document, dict) else {"profiles": document}
    for each in ({"profiles": [fields]}, {"profiles": [{"plugins": fields}]}, {"extenders": [fields]}, fields):
        try:
            read_configuration(HEAD | each)
        except InvalidConfiguration:
            continue


# Plugins


def test_default_plugins_keep_their_place() -> None:
    """Enabled ones that are default get the new weight, others follow; disabled ones are left out."""
    plugins = {
        "multiPoint": {
            "enabled": [{"name": "Mine"}, {"name": "ImageLocality", "weight": 5}],
            "disabled": [{"name": "NodeName"}],
        }
    }
    found = read_configuration(HEAD | {"profiles": [{"plugins": plugins}]}, registered={"Mine"})

    enabled = found.profiles[0].plugins["multiPoint"].enabled
    names = [each.name for each in enabled]
    assert names[-1] == "Mine"
    assert names.index("ImageLocality") == names.index("DefaultBinder") - 1
    assert "NodeName" not in names
    assert enabled[names.index("ImageLocality")].weight == 5


def test_all_defaults_can_be_disabled() -> None:
    """Those that are enabled remain, in their order."""
    plugins = {"multiPoint": {"enabled": [{"name": "NodeName"}, {"name": "PrioritySort"}], "disabled": [{"name": "*"}]}}
    found = read_profile(plugins=plugins).profiles[0].plugins["multiPoint"]

    assert [each.name for each in found.enabled] == ["NodeName", "PrioritySort"]


def test_an_unknown_plugin_is_refused_with_those_that_are_known() -> None:
    """And with the one that may be meant. A disabled one has no effect, as in kube-scheduler."""
    plugins = {"score": {"enabled": [{"name": "NodeResourceFit"}], "disabled": [{"name": "Unknown"}]}}

    [found] = faults(profiles=[{"plugins": plugins}])

    assert found.startswith(
        'profiles[0].plugins.score.enabled[0].name: "NodeResourceFit" is not a plugin: did you mean NodeResourcesFit?'
        " known are DefaultBinder, DefaultPreemption, DeferredPodScheduling, DynamicResources,"
    )


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        ({"filters": {}}, "filters: there is no such field: did you mean filter?"),
        ({"filter": {"enable": []}}, "filter.enable: there is no such field: did you mean enabled?"),
        ({"score": {"enabled": [{"name": "NodeName", "weight": -1}]}}, "score.enabled[0].weight: -1 is not allowed"),
        ({"score": {"enabled": [{"name": "NodeName"}] * 2}}, 'score.enabled[1].name: "NodeName" is enabled twice'),
    ],
)
def test_a_fault_of_a_plugin_set_names_its_place(plugins: dict[str, Any], expected: str) -> None:
    """Extension point, index and field."""
    [found] = faults(profiles=[{"plugins": plugins}])

    assert found.startswith(f"profiles[0].plugins.{expected}")


plugin_names = st.lists(st.sampled_from("abcde"), unique=True)


@given(default=plugin_names, custom=plugin_names, disabled=st.sets(st.sampled_from("abcde*")))
def test_plugins_are_merged_without_losing_or_doubling_one(
    default: list[str], custom: list[str], disabled: set[str]
) -> None:
    """Enabled: defaults that are not disabled, and all that the document enables."""
    kept = [name for name in default if name not in disabled and "*" not in disabled]

    found = merged(
        PluginSet(enabled=tuple(EnabledPlugin(name=name) for name in default)),
        PluginSet(enabled=tuple(EnabledPlugin(name=name, weight=7) for name in custom), disabled=frozenset(disabled)),
    )

    assert [each.name for each in found.enabled] == [*kept, *(name for name in custom if name not in kept)]
    assert {each.name for each in found.enabled if each.weight == 7} == set(custom)


# Arguments


def test_arguments_of_node_resources_fit_are_read() -> None:
    """A weight of 0 is 1."""
    strategy = {
        "type": "RequestedToCapacityRatio",
        "resources": [{"name": "cpu", "weight": 3}, {"name": "example.com/gpu", "weight": 0}],
        "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]},
    }
    found = arguments(
        "NodeResourcesFit",
        kind="NodeResourcesFitArgs",
        ignoredResources=["example.com/a"],
        ignoredResourceGroups=["example.org"],
        scoringStrategy=strategy,
    )

    assert found == NodeResourcesFitArgs(
        ignored_resources=("example.com/a",),
        ignored_resource_groups=("example.org",),
        strategy="RequestedToCapacityRatio",
        resources=(ResourceWeight(name="cpu", weight=3), ResourceWeight(name="example.com/gpu", weight=1)),
        shape=(ShapePoint(utilization=0, score=0), ShapePoint(utilization=100, score=10)),
    )
    assert arguments("NodeResourcesFit", scoringStrategy={"type": "MostAllocated", "resources": []}) == (
        NodeResourcesFitArgs(strategy="MostAllocated")
    )


def test_arguments_of_other_plugins_are_read() -> None:
    """Each as a value of its own type."""
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]
        }
    }
    added = arguments("NodeAffinity", addedAffinity=affinity).added_affinity
    constraint = {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"}

    assert added.required.node_selector_terms[0].match_expressions[0].key == "disk"
    assert arguments(
        "InterPodAffinity", hardPodAffinityWeight=0, ignorePreferredTermsOfExistingPods=True
    ) == InterPodAffinityArgs(hard_pod_affinity_weight=0, ignore_preferred_terms_of_existing_pods=True)
    assert arguments("PodTopologySpread", defaultingType="List", defaultConstraints=[constraint]) == (
        PodTopologySpreadArgs(
            default_constraints=(
                TopologySpreadConstraint(max_skew=2, topology_key="rack", when_unsatisfiable="ScheduleAnyway"),
            )
        )
    )
    assert arguments("PodTopologySpread", defaultingType="List") == PodTopologySpreadArgs(default_constraints=())
    assert arguments("VolumeBinding", bindTimeoutSeconds=0) == VolumeBindingArgs(bind_timeout=0)
    assert arguments("DefaultPreemption", minCandidateNodesPercentage=0) == (
        DefaultPreemptionArgs(min_candidate_nodes_percentage=0)
    )
    assert arguments("NodeResourcesBalancedAllocation", resources=[{"name": "cpu"}]) == (
        BalancedAllocationArgs(resources=(ResourceWeight(name="cpu"),))
    )


def test_arguments_of_a_plugin_of_the_program_are_left_as_they_are() -> None:
    """Only the plugin knows their form."""
    assert arguments("Mine", anything=[1, {"a": "b"}]) == {"anything": [1, {"a": "b"}]}


def required(**rule: Any) -> dict[str, Any]:
    terms = [{"matchExpressions": [rule]}]
    return {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


RULE = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0]"
A_CONSTRAINT = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}


def constraints(*each: dict[str, Any]) -> dict[str, Any]:
    return {"defaultingType": "List", "defaultConstraints": [A_CONSTRAINT | changes for changes in each]}


def ratio(*points: tuple[int, int]) -> dict[str, Any]:
    shape = [{"utilization": utilization, "score": score} for utilization, score in points]
    return {"scoringStrategy": {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": shape}}}


def weight(value: int) -> dict[str, Any]:
    return {"scoringStrategy": {"type": "LeastAllocated", "resources": [{"name": "cpu", "weight": value}]}}


SHAPE = "scoringStrategy.requestedToCapacityRatio.shape"


@pytest.mark.parametrize(
    ("plugin", "args", "expected"),
    [
        (
            "NodeResourcesFit",
            {"kind": "OtherArgs"},
            'kind: "OtherArgs" is not allowed: expected one of NodeResourcesFitArgs',
        ),
        (
            "NodeResourcesFit",
            {"ignoredResources": ["a b"]},
            'ignoredResources[0]: "a b" is not allowed: expected the name of an extended',
        ),
        (
            "NodeResourcesFit",
            {"ignoredResourceGroups": ["a/b"]},
            'ignoredResourceGroups[0]: "a/b" is not allowed: expected the group',
        ),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "Least"}},
            'scoringStrategy.type: "Least" is not allowed: expected one of Least',
        ),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"resources": []}},
            "scoringStrategy.type: null is not allowed: expected one of Least",
        ),
        ("NodeResourcesFit", weight(101), "scoringStrategy.resources[0].weight: 101 is not allowed: expected 0 to 100"),
        ("NodeResourcesFit", weight(-1), "scoringStrategy.resources[0].weight: -1 is not allowed: expected 0 to 100"),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "LeastAllocated", "requestedToCapacityRatio": {}}},
            "scoringStrategy.requestedToCapacityRatio: {} is not allowed: expected no such field unless type is ",
        ),
        ("NodeResourcesFit", ratio(), f"{SHAPE}: [] is not allowed: expected at least one point"),
        (
            "NodeResourcesFit",
            ratio((50, 1), (50, 2)),
            f"{SHAPE}[1].utilization: 50 is not allowed: expected more than 50",
        ),
        ("NodeResourcesFit", ratio((101, 1)), f"{SHAPE}[0].utilization: 101 is not allowed: expected 0 to 100"),
        ("NodeResourcesFit", ratio((1, 11)), f"{SHAPE}[0].score: 11 is not allowed: expected 0 to 10"),
        (
            "NodeResourcesBalancedAllocation",
            {"resources": [{"name": "cpu", "weight": 2}]},
            "resources[0].weight: 2 is not allowed",
        ),
        (
            "NodeResourcesBalancedAllocation",
            {"resources": [{"name": "cpu"}] * 2},
            'resources[1].name: "cpu" is given twice',
        ),
        (
            "NodeAffinity",
            required(key="a", operator="in"),
            f'{RULE}.operator: "in" is not allowed: did you mean In? expected one of In,',
        ),
        (
            "NodeAffinity",
            required(key="a", operator="In"),
            f"{RULE}.values: [] is not allowed: expected at least one value with In",
        ),
        (
            "NodeAffinity",
            required(key="a", operator="Exists", values=["b"]),
            f'{RULE}.values: ["b"] is not allowed: expected no values',
        ),
        (
            "NodeAffinity",
            required(key="a", operator="Gt", values=["b"]),
            f'{RULE}.values: ["b"] is not allowed: expected one whole number',
        ),
        (
            "NodeAffinity",
            required(key="-", operator="Exists"),
            f'{RULE}.key: "-" is not allowed: expected the key of a label',
        ),
        ("NodeAffinity", {"addedAffinity": 3}, "addedAffinity: Expected object, got int in 3"),
        (
            "InterPodAffinity",
            {"hardPodAffinityWeight": 101},
            "hardPodAffinityWeight: 101 is not allowed: expected 0 to 100",
        ),
        ("PodTopologySpread", {"defaultConstraints": [A_CONSTRAINT]}, "defaultConstraints: [{"),
        (
            "PodTopologySpread",
            {"defaultingType": "Lists"},
            'defaultingType: "Lists" is not allowed: did you mean List? expected one of System, List',
        ),
        (
            "PodTopologySpread",
            constraints({"maxSkew": 0}),
            "defaultConstraints[0].maxSkew: 0 is not allowed: expected 1 or more",
        ),
        (
            "PodTopologySpread",
            constraints({"maxSkew": None}),
            "defaultConstraints[0].maxSkew: null is not allowed: expected 1 or more",
        ),
        (
            "PodTopologySpread",
            constraints({"topologyKey": ""}),
            'defaultConstraints[0].topologyKey: "" is not allowed: expected the key',
        ),
        (
            "PodTopologySpread",
            constraints({"whenUnsatisfiable": None}),
            "defaultConstraints[0].whenUnsatisfiable: null is not allowed",
        ),
        (
            "PodTopologySpread",
            constraints({"labelSelector": {}}),
            "defaultConstraints[0].labelSelector: {} is not allowed: expected none",
        ),
        (
            "PodTopologySpread",
            constraints({}, {"maxSkew": 2}),
            'defaultConstraints[1].topologyKey: "zone" with DoNotSchedule is given twice',
        ),
        ("VolumeBinding", {"bindTimeoutSeconds": -1}, "bindTimeoutSeconds: -1 is not allowed: expected 0 or more"),
        (
            "VolumeBinding",
            {"shape": [{"utilization": 0, "score": 11}]},
            "shape[0].score: 11 is not allowed: expected 0 to 10",
        ),
        (
            "DefaultPreemption",
            {"minCandidateNodesPercentage": 101},
            "minCandidateNodesPercentage: 101 is not allowed: expected 0 to 100",
        ),
        (
            "DefaultPreemption",
            {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
            "minCandidateNodesPercentage: 0 is not allowed: expected more than 0 here or in minCandidateNodesAbsolute",
        ),
        ("DefaultPreemption", {"minCandidates": 1}, "minCandidates: there is no such field"),
    ],
)
def test_faults_of_arguments_are_those_of_kube_scheduler(plugin: str, args: dict[str, Any], expected: str) -> None:
    """With the place inside of the arguments."""
    [found] = faults_of(plugin, **args)

    assert found.startswith(expected)


def test_a_plugin_has_one_set_of_arguments() -> None:
    """Plugins that were removed have none."""
    config = [{"name": "NodeName"}, {"name": "NodeName"}, {"name": "EBSLimits"}]

    found = faults(profiles=[{"pluginConfig": config}])

    assert found[0] == 'profiles[0].pluginConfig[1].name: "NodeName" has two sets of arguments'
    assert found[1].startswith('profiles[0].pluginConfig[2].name: "EBSLimits" is not a plugin')


def test_names_of_labels_are_those_of_kubernetes() -> None:
    """At most 63 characters after a DNS subdomain of at most 253."""
    assert all(map(is_label_key, ["a", "A-b_c.d", "example.com/a", f"{'a' * 63}", f"{'a' * 253}/b"]))
    assert not any(map(is_label_key, ["", "-a", "a-", "a/", "/a", "A.com/a", "a/b/c", "a" * 64, f"{'a' * 254}/b", "ä"]))


# Extenders


def test_extenders_are_read_in_the_order_of_calls() -> None:
    """Those that are ignorable come last, whatever their place."""
    document = [
        {"urlPrefix": "http://a", "ignorable": True},
        {
            "urlPrefix": "http://b/",
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "preemptVerb": "preempt",
            "bindVerb": "bind",
            "weight": 5,
            "enableHTTPS": True,
            "tlsConfig": {"insecure": True, "caFile": "/ca"},
            "httpTimeout": "1m1.5s",
            "nodeCacheCapable": True,
            "managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": True}, {"name": "example.com/nic"}],
        },
    ]
    found = read(extenders=document)

    assert found.extenders == (
        HttpExtender(
            url_prefix="http://b/",
            filter_verb="filter",
            prioritize_verb="prioritize",
            preempt_verb="preempt",
            bind_verb="bind",
            weight=5,
            enable_https=True,
            tls=TlsSettings(insecure=True, ca_file="/ca"),
            http_timeout=61.5,
            node_cache_capable=True,
            managed_resources=(
                ManagedResource(name="example.com/gpu", ignored_by_scheduler=True),
                ManagedResource(name="example.com/nic"),
            ),
        ),
        HttpExtender(url_prefix="http://a", ignorable=True, http_timeout=5),
    )


def test_resources_that_an_extender_decides_about_replace_the_ignored_ones() -> None:
    """Of every profile."""
    extender = {"urlPrefix": "x", "managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": True}]}
    fit = {"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/a"]}}
    found = read(extenders=[extender], profiles=[{"schedulerName": "a", "pluginConfig": [fit]}, {"schedulerName": "b"}])

    assert [each.arguments["NodeResourcesFit"].ignored_resources for each in found.profiles] == [
        ("example.com/gpu",),
        ("example.com/gpu",),
    ]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"urlPrefix": ""}, 'urlPrefix: "" is not allowed: expected the URL of the extender'),
        ({"prioritizeVerb": "p"}, "weight: null is not allowed: expected 1 or more, as there is a prioritizeVerb"),
        ({"prioritizeVerb": "p", "weight": 0}, "weight: 0 is not allowed: expected 1 or more"),
        ({"httpTimeout": "5"}, 'httpTimeout: "5" is not allowed: expected a duration such as 500ms, 5s or 1m30s'),
        (
            {"managedResources": [{"name": "cpu"}]},
            'managedResources[0].name: "cpu" is not allowed: expected the name of an',
        ),
        (
            {"managedResources": [{"name": "a.kubernetes.io/b"}]},
            'managedResources[0].name: "a.kubernetes.io/b" is not allowed',
        ),
        (
            {"managedResources": [{"name": "e.com/a"}] * 2},
            'managedResources[1].name: "e.com/a" is managed by two extenders',
        ),
        ({"tlsConfig": {"ca": ""}}, "tlsConfig.ca: there is no such field"),
    ],
)
def test_a_fault_of_an_extender_names_its_place(fields: dict[str, Any], expected: str) -> None:
    """Index and field."""
    [found] = faults(extenders=[{"urlPrefix": "http://a"} | fields])

    assert found.startswith(f"extenders[0].{expected}")


def test_one_extender_binds_pods() -> None:
    """At most."""
    extenders = [{"urlPrefix": "http://a", "bindVerb": "bind"}, {"urlPrefix": "http://b", "bindVerb": "bind"}]

    assert faults(extenders=extenders) == ["extenders: only one extender may have a bindVerb"]
