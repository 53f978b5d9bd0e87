"""`equipoise config from`: the configurations of other deschedulers as one of Equipoise, and what is lost."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from cli.programs import invoke
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect as types

from equipoise.cli.foreign_configuration import schema
from equipoise.cli.foreign_configuration.run import translated
from equipoise.cli.foreign_configuration.translation import Remark
from equipoise.cli.service_settings import AllSettings, all_settings
from equipoise.runtime.configuration import ConfigurationError, read_document

DATA = Path(__file__).parents[2] / "data" / "foreign"


def koordinator(args: dict[str, Any] | None = None, evictor: dict[str, Any] | None = None, **fields: Any) -> str:
    """A DeschedulerConfiguration with LowNodeLoad and MigrationController."""
    profile = {
        "name": "koord-descheduler",
        "plugins": {"balance": {"enabled": [{"name": "LowNodeLoad"}]}},
        "pluginConfig": [{"name": "LowNodeLoad", "args": args}, {"name": "MigrationController", "args": evictor}],
    }
    header = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerConfiguration"}
    return json.dumps({**header, "profiles": [profile], **fields})


def sigs(plugin: str, args: dict[str, Any] | None = None, evictor: dict[str, Any] | None = None, **fields: Any) -> str:
    """A DeschedulerPolicy of v1alpha2 with one plugin and DefaultEvictor."""
    profile = {
        "name": "default",
        "plugins": {"balance": {"enabled": [plugin]}},
        "pluginConfig": [{"name": plugin, "args": args}, {"name": "DefaultEvictor", "args": evictor}],
    }
    return json.dumps(
        {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": [profile], **fields}
    )


def old_sigs(**fields: Any) -> str:
    """A DeschedulerPolicy of v1alpha1."""
    return json.dumps({"apiVersion": "descheduler/v1alpha1", "kind": "DeschedulerPolicy", **fields})


def settings_of(text: str) -> AllSettings:
    document, _ = translated(text)
    return all_settings(read_document(document))


def at(text: str, path: str) -> Any:
    """A setting of the translation, or None."""
    value: Any = yaml.safe_load(translated(text)[0])
    for name in path.split("."):
        value = value[int(name)] if isinstance(value, list) else value.get(name) if value is not None else None
    return value


def remarks(text: str) -> dict[str, Remark]:
    return {remark.setting: remark for remark in translated(text)[1].remarks}


@pytest.mark.parametrize("name", ["koord-configmap", "sigs-policy"])
def test_published_configurations_have_the_right_translation(name: str) -> None:
    """Every setting is the expected one, and what is lost is listed on stderr."""
    source, expected = (DATA / f"{name}{end}.yaml" for end in ("", ".expected"))

    result = invoke("config", "from", str(source))

    assert all_settings(read_document(result.stdout)) == all_settings(read_document(expected.read_text()))
    assert 3 == result.exit_code
    assert "not translated" in result.stderr


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("koord-configmap", {"LowNodeLoad.detectorCacheTimeout", "MigrationController.maxMigratingPerNamespace"}),
        (
            "sigs-policy",
            {
                "DefaultEvictor.ignorePodsWithoutPDB",
                "DefaultEvictor.minPodAge",
                "DefaultEvictor.priorityThreshold.name",
                "profiles[0].pluginConfig[2].name",
            },
        ),
    ],
)
def test_what_the_configurations_lose_is_listed(name: str, lost: set[str]) -> None:
    """Neither more nor less than what has no counterpart."""
    found = translated((DATA / f"{name}.yaml").read_text())[1].remarks

    assert lost == {remark.setting for remark in found if remark.result != "note"}


def test_nothing_is_lost_with_exit_code_0() -> None:
    """Both parts are one document with -o json."""
    source = koordinator({"lowThresholds": {"cpu": 40}, "highThresholds": {"cpu": 70}}, {"ignorePvcPods": True})

    result = invoke("config", "from", "-", "-o", "json", text=source)

    found = json.loads(result.stdout)
    assert 0 == result.exit_code
    assert {"low": {"cpu": 40}, "high": {"cpu": 70}} == found["configuration"]["thresholds"]
    assert [] == found["remarks"]


@pytest.mark.parametrize(
    ("source", "setting"),
    [
        (
            sigs("LowNodeUtilization", {"thresholds": {"cpu": 100}, "targetThresholds": {"cpu": 100}}),
            "LowNodeUtilization.thresholds",
        ),
        (sigs("LowNodeUtilization", {"numberOfNodes": 3}), "LowNodeUtilization.thresholds"),
        (sigs("LowNodeUtilization", {"useDeviationThresholds": True}), "LowNodeUtilization.thresholds"),
        (koordinator({"numberOfNodes": 3}), "LowNodeLoad.highThresholds"),
        (
            koordinator({"lowThresholds": {"cpu": 100}, "highThresholds": {"cpu": 100}}),
            "LowNodeLoad.highThresholds",
        ),
    ],
)
def test_default_thresholds_in_place_of_the_lost_ones_are_a_remark(source: str, setting: str) -> None:
    """Without it, nodes would be hot at loads that nobody has chosen."""
    remark = remarks(source)[setting]

    assert remark.result == "not translated"
    assert "low_node_load has the default ones" in remark.reason


THRESHOLDS = {"lowThresholds": {"cpu": 40}, "highThresholds": {"cpu": 70}}


@pytest.mark.parametrize(
    ("args", "path", "value"),
    [
        (
            {"lowThresholds": {"cpu": 40, "pods": 100}, "highThresholds": {"cpu": 70, "pods": 100}},
            "thresholds.high",
            {"cpu": 70},
        ),
        ({"lowThresholds": {"cpu": 40}, "highThresholds": {"cpu": 70, "memory": 80}}, "thresholds.high", {"cpu": 70}),
        ({"lowThresholds": {"cpu": 40, "memory": 50}, "highThresholds": {"cpu": 70}}, "thresholds.low", {"cpu": 40}),
        ({"lowThresholds": {"cpu": 68}, "highThresholds": {"cpu": 70}}, "thresholds.low", {"cpu": 65}),
        ({"lowThresholds": {"cpu": 0}, "highThresholds": {"cpu": 0}}, "thresholds.high", {"cpu": 5}),
        ({"lowThresholds": {"cpu": 40}, "highThresholds": {"cpu": 150}}, "thresholds.high", {"cpu": 100}),
        ({"lowThresholds": {"cpu": 40.5}, "highThresholds": {"cpu": 70}}, "thresholds.low", {"cpu": 40.5}),
        (
            THRESHOLDS | {"prodLowThresholds": {"cpu": 30}, "prodHighThresholds": {"cpu": 60}},
            "thresholds.prodHigh",
            {"cpu": 60},
        ),
        (
            THRESHOLDS | {"prodLowThresholds": {"cpu": 68}, "prodHighThresholds": {"cpu": 90}},
            "thresholds.prodHigh",
            {"cpu": 70},
        ),
        (
            THRESHOLDS | {"prodLowThresholds": {"cpu": 68}, "prodHighThresholds": {"cpu": 90}},
            "thresholds.prodLow",
            {"cpu": 65},
        ),
        (
            THRESHOLDS | {"useDeviationThresholds": True},
            "descheduler.strategies.0.deviation",
            {"high": {"cpu": 70}, "low": {"cpu": 40}, "floor": 0},
        ),
        (THRESHOLDS | {"useDeviationThresholds": True}, "descheduler.strategies.0.numberOfNodes", 0),
        (THRESHOLDS | {"useDeviationThresholds": True}, "thresholds", None),
        (
            {"lowThresholds": {"cpu": 1}, "highThresholds": {"cpu": 2}, "useDeviationThresholds": True},
            "descheduler.strategies.0.deviation.high",
            {"cpu": 4},
        ),
        ({"numberOfNodes": 3}, "descheduler.strategies.0.numberOfNodes", 3),
        ({"nodeMetricExpirationSeconds": 300}, "load.freshness.eviction", "5m"),
        ({"resourceWeights": {"cpu": 2, "memory": 0}}, "descheduler.strategies.0.weights", {"cpu": 2, "memory": 1}),
        ({"evictableNamespaces": {"exclude": ["a"]}}, "namespaces", {"exclude": ["a"]}),
        (
            {
                "nodePools": [
                    {
                        "name": "gpu",
                        "nodeSelector": {"matchLabels": {"pool": "gpu"}},
                        "lowThresholds": {"cpu": 10},
                        "highThresholds": {"cpu": 30},
                    }
                ]
            },
            "descheduler.strategies.0.pools",
            [
                {
                    "name": "gpu",
                    "nodeSelector": {"matchLabels": {"pool": "gpu"}},
                    "low": {"cpu": 10},
                    "high": {"cpu": 30},
                }
            ],
        ),
    ],
)
def test_the_arguments_of_low_node_load(args: dict[str, Any], path: str, value: object) -> None:
    """A resource that the source ignores is left out; what contradicts itself is changed by as little as possible."""
    assert value == at(koordinator(args), path)


@pytest.mark.parametrize(
    ("evictor", "path", "value"),
    [
        ({"maxMigratingPerWorkload": "20%"}, "binder.limits.migratingPerWorkload.max", "20%"),
        ({"maxMigratingPerWorkload": 0}, "binder.limits.migratingPerWorkload.max", 1),
        ({"maxUnavailablePerWorkload": "150%"}, "binder.limits.unavailablePerWorkload.max", "100%"),
        ({"maxMigratingPerNode": 0}, "binder.limits.migratingPerNode.max", "unlimited"),
        ({"maxMigratingPerNode": 0}, "descheduler.maxIntentsPerNode", None),
        ({"maxMigratingGlobally": 7}, "descheduler.maxIntentsPerEvaluation", 7),
        (
            {"objectLimiters": {"namespace": {"duration": "1m0s", "maxMigrating": 3}}},
            "binder.limits.evictionsPerNamespace",
            {"max": 3, "window": "1m"},
        ),
        ({"skipCheckExpectedReplicas": True}, "protection.minReplicas", 1),
        ({"evictQPS": "10"}, "binder.limits.rate", {"max": 10, "window": "1s"}),
        ({"evictQPS": 0.25}, "binder.limits.rate", {"max": 1, "window": "4s"}),
        ({"ignorePvcPods": False}, "protection.persistentVolumes", True),
        ({"priorityThreshold": {"value": 1000}}, "protection.priorityThreshold", 1000),
        ({"priorityThreshold": {"name": "system-cluster-critical"}}, "protection.priorityThreshold", 2_000_000_000),
        ({"namespaces": {"include": ["shop"]}}, "namespaces", {"include": ["shop"]}),
        (
            {"labelSelector": {"matchLabels": {"move": "yes"}}},
            "descheduler.strategies.0.podSelectors",
            [{"name": "all", "selector": {"matchLabels": {"move": "yes"}}}],
        ),
    ],
)
def test_the_arguments_of_the_migration_controller(evictor: dict[str, Any], path: str, value: object) -> None:
    """Limits, protections and selectors."""
    assert value == at(koordinator(THRESHOLDS, evictor), path)


def test_namespaces_and_labels_of_strategy_and_evictor_both_apply() -> None:
    """A pod must be selected by both."""
    args = {
        "evictableNamespaces": {"exclude": ["a"]},
        "podSelectors": [{"name": "x", "selector": {"matchLabels": {"a": "1"}}}],
    }
    text = koordinator(
        args,
        {"namespaces": {"include": ["shop"]}, "labelSelector": {"matchLabels": {"a": "2", "b": "3"}}},
        nodeSelector={"matchLabels": {"pool": "one"}},
    )

    strategy = at(text, "descheduler.strategies.0")

    assert {"exclude": ["a"]} == at(text, "namespaces")
    assert {"include": ["shop"]} == strategy["namespaces"]
    assert {"matchLabels": {"pool": "one"}} == strategy["nodeSelector"]
    rule = {"key": "a", "operator": "In", "values": ["2"]}
    assert [{"name": "x", "selector": {"matchLabels": {"a": "1", "b": "3"}, "matchExpressions": [rule]}}] == strategy[
        "podSelectors"
    ]


UTILIZATION = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        (sigs("LowNodeUtilization", UTILIZATION), "thresholds", {"low": {"cpu": 20}, "high": {"cpu": 50}}),
        (
            sigs("LowNodeUtilization", UTILIZATION | {"useDeviationThresholds": True}),
            "descheduler.strategies.0.deviation",
            {"high": {"cpu": 50}, "low": {"cpu": 20}, "floor": 0},
        ),
        (
            sigs(
                "LowNodeUtilization",
                UTILIZATION | {"metricsUtilization": {"source": "Prometheus"}},
                metricsProviders=[{"source": "Prometheus", "prometheus": {"url": "http://p:9090"}}],
            ),
            "collector",
            {"source": "prometheus", "prometheus": {"url": "http://p:9090"}},
        ),
        (sigs("LowNodeUtilization", UTILIZATION | {"evictionLimits": {"node": 3}}), "descheduler.maxIntentsPerNode", 3),
        (
            sigs("HighNodeUtilization", {"thresholds": {"cpu": 15, "nvidia.com/gpu": 20}, "numberOfNodes": 1}),
            "descheduler.strategies",
            [{"name": "bin_pack", "thresholds": {"cpu": 15}, "numberOfNodes": 1}],
        ),
        (sigs("HighNodeUtilization", {"thresholds": {"cpu": 99}}), "descheduler.strategies.0.thresholds", {"cpu": 50}),
        (sigs("HighNodeUtilization", {"thresholds": {"cpu": 15}}), "scorer.neutral", True),
        (sigs("LowNodeUtilization", UTILIZATION, {"minReplicas": 3}), "protection.minReplicas", 3),
        (sigs("LowNodeUtilization", UTILIZATION, {"minReplicas": 0}), "protection.minReplicas", 1),
        (
            sigs("LowNodeUtilization", UTILIZATION, {"podProtections": {"defaultDisabled": ["PodsWithLocalStorage"]}}),
            "protection",
            {"localStorage": True},
        ),
        (
            sigs("LowNodeUtilization", UTILIZATION, {"podProtections": {"extraEnabled": ["PodsWithPVC"]}}),
            "protection",
            {"persistentVolumes": False},
        ),
        (
            sigs(
                "LowNodeUtilization",
                UTILIZATION,
                {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}},
            ),
            "descheduler.strategies.0.podSelectors.0.selector",
            {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
        ),
        (sigs("LowNodeUtilization", UTILIZATION, maxNoOfPodsToEvictPerNode=4), "descheduler.maxIntentsPerNode", 4),
        (sigs("LowNodeUtilization", UTILIZATION, maxNoOfPodsToEvictTotal=9), "descheduler.maxIntentsPerEvaluation", 9),
        (
            sigs("LowNodeUtilization", UTILIZATION, maxNoOfPodsToEvictTotal=0),
            "binder.limits.evictionsPerCluster.max",
            0,
        ),
        (
            sigs("LowNodeUtilization", UTILIZATION, maxNoOfPodsToEvictPerNamespace=2),
            "binder.limits.evictionsPerNamespace",
            {"max": 2, "window": "2m"},
        ),
        (
            sigs("LowNodeUtilization", UTILIZATION, nodeSelector="pool=a"),
            "descheduler.strategies.0.nodeSelector",
            {"matchLabels": {"pool": "a"}},
        ),
        (
            old_sigs(
                strategies={
                    "LowNodeUtilization": {
                        "enabled": True,
                        "params": {
                            "nodeResourceUtilizationThresholds": UTILIZATION | {"numberOfNodes": 2},
                            "namespaces": {"exclude": ["a"]},
                            "thresholdPriority": 77,
                        },
                    }
                }
            ),
            "descheduler.strategies",
            [{"name": "low_node_load", "numberOfNodes": 2}],
        ),
        (
            old_sigs(
                strategies={
                    "LowNodeUtilization": {
                        "enabled": True,
                        "params": {"nodeResourceUtilizationThresholds": UTILIZATION, "thresholdPriority": 77},
                    }
                }
            ),
            "protection.priorityThreshold",
            77,
        ),
        (old_sigs(strategies={"LowNodeUtilization": {"enabled": False}}), "descheduler.strategies", None),
    ],
)
def test_the_policies_of_the_kubernetes_descheduler(text: str, path: str, value: object) -> None:
    """LowNodeUtilization, HighNodeUtilization, DefaultEvictor and the limits of a pass."""
    assert value == at(text, path)


@pytest.mark.parametrize(
    ("text", "setting", "result"),
    [
        (sigs("RemoveDuplicates"), "profiles[0].pluginConfig[0].name", "not translated"),
        (sigs("LowNodeUtilization", UTILIZATION, {"minPodAge": "10m"}), "DefaultEvictor.minPodAge", "not translated"),
        (sigs("LowNodeUtilization", UTILIZATION, {"nodeFit": False}), "DefaultEvictor.nodeFit", "not translated"),
        (
            sigs("LowNodeUtilization", UTILIZATION, {"namespaceLabelSelector": {"matchLabels": {"a": "b"}}}),
            "DefaultEvictor.namespaceLabelSelector",
            "not translated",
        ),
        (
            sigs(
                "LowNodeUtilization", {"thresholds": {"MetricResource": 20}, "targetThresholds": {"MetricResource": 50}}
            ),
            "LowNodeUtilization.thresholds.MetricResource",
            "not translated",
        ),
        (sigs("LowNodeUtilization", UTILIZATION), "LowNodeUtilization.metricsUtilization", "note"),
        (
            koordinator({"anomalyCondition": {"timeout": "1m"}}),
            "LowNodeLoad.anomalyCondition.timeout",
            "not translated",
        ),
        (
            koordinator({"lowThresholds": {"cpu": 68}, "highThresholds": {"cpu": 70}}),
            "LowNodeLoad.lowThresholds.cpu",
            "changed",
        ),
        (koordinator({}, {"skipEvictionGates": ["PVC"]}), "MigrationController.skipEvictionGates[0]", "not translated"),
        (koordinator({}, {"evictAllBarePods": True}), "MigrationController.evictAllBarePods", "not translated"),
        (koordinator({}, {"evictionPolicy": "SoftEviction"}), "MigrationController.evictionPolicy", "not translated"),
        (koordinator({"paused": True}), "LowNodeLoad.paused", "not translated"),
        (koordinator({}, deschedulingInterval="0s"), "deschedulingInterval", "not translated"),
        (koordinator({}, dryRun=False), "dryRun", "note"),
    ],
)
def test_what_has_no_counterpart_is_named(text: str, setting: str, result: str) -> None:
    """The remark has its path in the source and a reason."""
    assert result == remarks(text)[setting].result


def test_settings_of_a_whole_policy_are_named_as_there() -> None:
    """The evictor of the first version has no arguments of its own; a strategy runs only if it is enabled."""
    params = {"nodeResourceUtilizationThresholds": UTILIZATION, "nodeFit": False}
    text = old_sigs(
        evictLocalStoragePods=True,
        evictFailedBarePods=True,
        strategies={"LowNodeUtilization": {"enabled": True, "params": params}, "RemoveDuplicates": {}},
    )

    found = remarks(text)

    assert "localStorage: true  # evictLocalStoragePods" in translated(text)[0]
    assert "not translated" == found["evictFailedBarePods"].result
    assert "not translated" == found["strategies.LowNodeUtilization.params.nodeFit"].result
    assert "note" == found["strategies.RemoveDuplicates"].result


@pytest.mark.parametrize("dry_run", [True, False, None])
def test_evictions_stay_dry_runs(dry_run: bool | None) -> None:
    """Whatever the source has."""
    text = koordinator({"dryRun": dry_run}, {"dryRun": dry_run}, dryRun=dry_run)

    assert settings_of(text).binder.evict is False
    assert at(text, "binder.evict") is False


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (
            koordinator({"lowThreshold": {"cpu": 1}}),
            "args.lowThreshold: there is no such setting: did you mean lowThresholds?",
        ),
        (koordinator({"lowThresholds": {"cpu": "much"}}), "profiles[0].pluginConfig[0].args.lowThresholds"),
        (koordinator({"lowThresholds": {"cpu": -1}}), "profiles[0].pluginConfig[0].args.lowThresholds"),
        (koordinator({"lowThresholds": [1]}), "expected object"),
        (
            koordinator({"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}),
            "expected In or NotIn",
        ),
        (koordinator({}, {"maxMigratingPerWorkload": "many"}), "a number or a percentage"),
        (koordinator({}, deschedulingInterval=120), "deschedulingInterval: 120 is not a duration"),
        (koordinator({}, deschedulingInterval="-5s"), "is not a duration"),
        (koordinator({}, deschedulingInterval="9" * 400 + "h"), "is not a duration"),
        (koordinator({}, profile=[]), "profile: there is no such setting: did you mean profiles?"),
        (koordinator({}, profiles="all"), 'profiles: "all" is not allowed'),
        (koordinator({}, **{"bidi\u202e\x1b[31m": 1}), "Error: bidi\\u202e"),
        ("", "the file has no document"),
        ("a: [", "line 1"),
        ("- 1", "which is no object"),
        ("kind: Deployment", 'the file has kind "Deployment"'),
        ("kind: EquipoiseConfiguration\napiVersion: equipoise.dev/v1alpha1", 'kind "EquipoiseConfiguration"'),
        ("kind: DeschedulerPolicy\napiVersion: descheduler/v1", 'apiVersion: "descheduler/v1" of a DeschedulerPolicy'),
        ("kind: DeschedulerPolicy", "apiVersion: null of a DeschedulerPolicy"),
        ("kind: ConfigMap\ndata: {a: 1}", "expected text"),
        ('kind: ConfigMap\ndata: {a: "kind: DeschedulerPolicy\\n\\t- x"}', 'ConfigMap, data["a"]'),
        ("a: &x [1]\nb: *x", "aliases (*name) are not allowed"),
        ("a: !!python/object:os.system {}", "the tag"),
        ("[" * 100_000, "nested too deeply"),
        ("\x00", "unacceptable character"),
        (b"\xff\xfe", "not UTF-8"),
        ("x: " + "y" * 2**20, "more than 1048576 bytes"),
        (koordinator({}) + "\n---\n" + koordinator({}), "the file has 2 configurations"),
    ],
)
def test_what_cannot_be_read_is_a_named_error(tmp_path: Path, content: str | bytes, error: str) -> None:
    """The exit code is 2, and no configuration is printed."""
    file = tmp_path / "policy.yaml"
    file.write_bytes(content.encode() if isinstance(content, str) else content)

    result = invoke("config", "from", str(file))

    assert (2, "") == (result.exit_code, result.stdout)
    assert error in result.stderr


def test_null_is_an_absent_field_and_numbers_may_be_text() -> None:
    """Kubernetes does the same, whatever the name of the field is."""
    text = koordinator(
        {"lowThresholds": {"cpu": "40"}, "highThresholds": {"cpu": "70%"}, "podSelectors": None}, other=None
    )

    assert {"low": {"cpu": 40}, "high": {"cpu": 70}} == at(text, "thresholds")


def test_the_values_of_a_chart_contain_a_policy() -> None:
    """The policy has no kind and no apiVersion there."""
    policy = json.loads(sigs("LowNodeUtilization", UTILIZATION))
    text = json.dumps(
        {"schedule": "@hourly", "deschedulerPolicy": {"profiles": policy["profiles"], "nodeSelector": None}}
    )

    assert translated(text)[0] == translated(json.dumps(policy))[0]


def test_the_configuration_is_found_among_other_manifests() -> None:
    """The manifests are a stream of documents, or a List."""
    policy = json.loads(sigs("LowNodeUtilization", UTILIZATION))
    stream = f"kind: ServiceAccount\n---\n{json.dumps(policy)}\n---\nkind: Deployment\n"
    listed = json.dumps(
        {"kind": "List", "items": [{"kind": "Role"}, {"kind": "ConfigMap", "data": {"p": yaml.safe_dump(policy)}}]}
    )

    assert translated(stream)[0] == translated(listed)[0] == translated(json.dumps(policy))[0]


def values(info: types.Type) -> st.SearchStrategy[Any]:
    """Values of a type, at the edges of what it allows."""
    match info:
        case types.Metadata(type=inner):
            return values(inner)
        case types.StructType(fields=fields):
            options = {each.encode_name: values(each.type) for each in fields}
            required = {each.encode_name: options.pop(each.encode_name) for each in fields if each.required}
            return st.fixed_dictionaries(required, optional=options)
        case types.UnionType(types=members):
            return st.one_of([values(each) for each in members])
        case types.LiteralType(values=allowed):
            return st.sampled_from(list(allowed))
        case types.VarTupleType(item_type=item):
            return st.lists(values(item), max_size=3)
        case types.DictType(value_type=value):
            names = st.sampled_from(["cpu", "memory", "pods", "nvidia.com/gpu", "workload", "namespace", "\x1b"])
            return st.dictionaries(names, values(value), max_size=4)
        case types.CustomType():
            return st.sampled_from(["0", "0s", "90s", "1h30m", "1.5h", "10us"])
        case types.BoolType():
            return st.booleans()
        case types.IntType():
            return st.sampled_from([0, 1, 2, 5, 40, 100, 2**31 - 1]) | st.integers(-(2**31), 2**31 - 1)
        case types.FloatType():
            return st.sampled_from([0.0, 1.0, 4.9, 5.0, 20.0, 60.0, 66.0, 70.0, 99.9, 100.0, 101.0, 1e9])
        case types.NoneType():
            return st.none()
        case types.StrType():
            return st.sampled_from(["", "a", "a=b", "10%", "200%", "PodsWithPVC", "Prometheus", "x\u202e\x1b[31m: #"])
    return st.sampled_from([None, 1, {"a": [1]}, "x"])


ARGUMENTS = {
    "LowNodeLoad": schema.LowNodeLoadArgs,
    "LowNodeUtilization": schema.LowNodeUtilizationArgs,
    "HighNodeUtilization": schema.HighNodeUtilizationArgs,
    "MigrationController": schema.MigrationControllerArgs,
    "DefaultEvictor": schema.DefaultEvictorArgs,
}


@st.composite
def sources(draw: st.DrawFn) -> str:
    kind, version = draw(
        st.sampled_from(
            [
                ("DeschedulerConfiguration", schema.KoordinatorConfiguration),
                ("DeschedulerPolicy", schema.SigsPolicy),
            ]
        )
    )
    document = draw(values(types.type_info(version)))
    names = draw(st.lists(st.sampled_from(list(ARGUMENTS)), max_size=4))
    configured = [{"name": name, "args": draw(values(types.type_info(ARGUMENTS[name])))} for name in names]
    document["profiles"] = [{"pluginConfig": configured}]
    return json.dumps(document | {"kind": kind, "apiVersion": "descheduler/v1alpha2"})


@given(text=sources())
def test_whatever_is_written_becomes_a_valid_configuration_or_a_named_error(text: str) -> None:
    """Nothing in the output can be taken for another setting, a comment or a command to a terminal."""
    try:
        document, translation = translated(text)
    except ConfigurationError as refusal:
        error = str(refusal)
    else:
        all_settings(read_document(document))
        error = ""
        assert document.isascii()
        assert document.replace("\n", "").isprintable()
        for remark in translation.remarks:
            assert (remark.setting + remark.value + remark.reason).isprintable()
    assert "contradict" not in error


NAMES = st.sampled_from(["profiles", "name", "args", "pluginConfig", "plugins", "balance", "LowNodeLoad"])
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
)


@given(profiles=anything)
def test_values_of_any_type_are_refused_by_name(profiles: object) -> None:
    """They never end the command with a traceback."""
    text = json.loads(koordinator()) | {"profiles": profiles}
    with suppress(ConfigurationError):
        translated(json.dumps(text))


def test_a_remark_is_plain_data() -> None:
    """Programs read it with -o json."""
    result = invoke("config", "from", "-", "-o", "json", text=sigs("RemoveDuplicates"))

    assert 3 == result.exit_code
    found = [msgspec.convert(each, Remark) for each in json.loads(result.stdout)["remarks"]]
    assert {"not translated", "note"} >= {remark.result for remark in found}
