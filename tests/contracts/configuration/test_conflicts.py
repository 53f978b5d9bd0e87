"""Settings of scorer and descheduler that conflict are refused wherever they are read."""

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from equipoise.binder.settings import BinderSettings
from equipoise.cli.service_settings import SERVICE_SETTINGS
from equipoise.contracts.bus.subjects import ServiceName
from equipoise.contracts.configuration import conflicts as ping_pong
from equipoise.contracts.configuration.settings import ResourceThresholds, Thresholds
from equipoise.descheduler.decisions.strategies import STRATEGIES
from equipoise.descheduler.decisions.strategies.bin_pack import BinPack
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.runtime.configuration import ConfigurationError, read_document, read_sections, validate_document
from equipoise.scorer.decisions.policies.dynamic import Dynamic
from equipoise.scorer.decisions.policies.target_load_packing import TargetLoadPacking

HEADER = "apiVersion: equipoise.dev/v1alpha1\nkind: EquipoiseConfiguration\n"
FILTER = "extender: {filter: true}"
POOL = "pools: [{name: gpu, nodeSelector: {matchLabels: {pool: gpu}}"


def strategies(*entries: str) -> str:
    return "descheduler: {strategies: [" + ", ".join("{" + entry + "}" for entry in entries) + "]}\n"


def scorer(*entries: str) -> str:
    return "scorer: {" + ", ".join(entries) + "}\n"


PACKING = scorer("policy: {name: target_load_packing}")

REFUSED = {
    "intents that the binder would reject": (
        "descheduler: {intentLifetime: 20m}\n",
        ["descheduler.intentLifetime: 20m", "binder.maxIntentLifetime (15m)"],
    ),
    "pressure that is required without a threshold": (
        "descheduler: {requirePressure: true}\nthresholds: {pressure: {io: 20}}\n",
        ["descheduler.requirePressure", "set thresholds.pressure.cpu"],
    ),
    "a window that is not measured": (
        strategies("name: low_node_load, windows: [5m, 7m]"),
        ["descheduler.strategies[0].windows: 7m is not measured: load.windows has 5m, 15m, 1h, 1d"],
    ),
    "a default window that is not measured": (
        "load: {windows: [{name: 10m, length: 10m, refreshPeriod: 30s}]}\n"
        + strategies("name: level_day, windows: [5m]"),
        ["descheduler.strategies[0].windows: 5m is not measured: load.windows has 10m"],
    ),
    "a pool's marks against the inherited ones": (
        strategies(f"name: low_node_load, {POOL}, high: {{cpu: 48}}}}]"),
        ["descheduler.strategies[0].pools[0]", "low.cpu (45", "high.cpu (48)"],
    ),
    "the filter fills a pool above its threshold": (
        scorer(FILTER) + strategies(f"name: low_node_load, {POOL}, high: {{cpu: 55}}}}]"),
        [
            "thresholds.high.cpu: the filter accepts nodes up to 65%",
            "pools[0] evicts pods above high.cpu 55%",
        ],
    ),
    "load_aware's own thresholds": (
        scorer(FILTER, "policy: {name: load_aware, usageThresholds: {cpu: 70, memory: 75}}"),
        ["scorer.policy.usageThresholds.cpu: the filter accepts nodes up to 70%", "lower the first to 65"],
    ),
    "load_aware's aggregated thresholds": (
        scorer(FILTER, "policy: {name: load_aware, aggregated: {usageThresholds: {memory: 85}}}"),
        ["scorer.policy.aggregated.usageThresholds.memory", "85%", "high.memory 80%"],
    ),
    "load_aware's thresholds of production": (
        "thresholds: {prodHigh: {cpu: 40}}\n"
        + scorer(FILTER, "policy: {name: load_aware, prodUsageThresholds: {cpu: 50}}"),
        ["scorer.policy.prodUsageThresholds.cpu", "50%", "prodHigh.cpu 40%"],
    ),
    "dynamic's predicates": (
        "thresholds: {high: {cpu: 60, memory: 80}}\n" + scorer(FILTER, "policy: {name: dynamic}"),
        ["scorer.policy.predicates.cpu", "65%", "high.cpu 60%"],
    ),
    "a part of a mix": (
        scorer(FILTER, "policy: {name: mix, parts: [{policy: {name: load_aware, usageThresholds: {cpu: 70}}}]}"),
        ["scorer.policy.parts[0].policy.usageThresholds.cpu"],
    ),
    "a packing target near the high threshold": (
        scorer("policy: {name: target_load_packing, targetUtilization: 62}"),
        ["scorer.policy.targetUtilization", "62%", "lower the first to 60 or raise the second to 67"],
    ),
    "a packing target above a rule that empties nodes": (
        PACKING + strategies("name: rules, rules: [{metric: cpu, operator: GreaterThan, target: 42}]"),
        [
            "scorer.policy.targetUtilization: nodes are filled to 40%",
            "descheduler.strategies[0].rules empties them above cpu 42%",
            "lower the first to 37 or raise the second to 45",
        ],
    ),
    "a packing target below a rule that empties idle nodes": (
        PACKING + strategies("name: rules, rules: [{metric: cpu, operator: LessThan, target: 38}]"),
        ["strategies[0].rules: nodes below cpu 38% are emptied", "fills them to 40% only: lower the first to 35"],
    ),
    "packing beside levelling": (
        PACKING + strategies("name: low_node_load, deviation: {}"),
        ["scorer.policy: target_load_packing", "descheduler.strategies[0] levels them"],
    ),
    "packing beside a pool that is levelled": (
        PACKING + strategies(f"name: low_node_load, {POOL}, deviation: {{}}}}]"),
        ["descheduler.strategies[0].pools[0] levels them"],
    ),
    "packing beside a strategy that levels the day": (
        PACKING + strategies("name: low_node_load", "name: level_day"),
        ["scorer.policy: target_load_packing", "descheduler.strategies[1] levels them"],
    ),
    "emptying what a levelling scorer fills": (
        strategies("name: bin_pack"),
        ["descheduler.strategies[0]: bin_pack empties nodes that scorer.policy (profile) fills first"],
    ),
    "emptying what another strategy fills": (
        PACKING + strategies("name: low_node_load", "name: bin_pack"),
        ["descheduler.strategies[1]: bin_pack empties the nodes that descheduler.strategies[0] (low_node_load) fills"],
    ),
    "a rule that empties idle nodes beside a strategy that fills them": (
        strategies(
            "name: rules, rules: [{metric: cpu, operator: LessThan, target: 20}]",
            "name: low_node_load",
            "name: level_day",
        ),
        [
            "descheduler.strategies[0]: a rule with LessThan empties the nodes that descheduler.strategies[1]",
            "descheduler.strategies[0]: a rule with LessThan empties the nodes that descheduler.strategies[2]",
        ],
    ),
    "a rule below the threshold up to which nodes are filled": (
        strategies("name: low_node_load", "name: rules, rules: [{metric: cpu, operator: GreaterThan, target: 50}]"),
        [
            "descheduler.strategies[1].rules: nodes above cpu 50% are emptied, and descheduler.strategies[0] "
            "(low_node_load) fills them up to thresholds.high.cpu 65%: raise the first to 65"
        ],
    ),
    "a rule below the threshold of a pool": (
        strategies(
            "name: rules, rules: [{metric: cpu, operator: GreaterThan, target: 70}]",
            f"name: low_node_load, {POOL}, high: {{cpu: 75}}}}]",
        ),
        ["fills them up to descheduler.strategies[1].pools[0].high.cpu 75%"],
    ),
    "a rule below the threshold of a further resource": (
        "load: {resources: {network: {node: 'rate(x[$window])', capacity: 1}}}\n"
        "thresholds: {resources: {network: {high: 80}}}\n"
        + strategies("name: make_room", "name: rules, rules: [{metric: network, operator: GreaterThan, target: 60}]"),
        ["nodes above network 60% are emptied", "(make_room) fills them up to thresholds.resources.network.high 80%"],
    ),
    "the filter above a rule that empties nodes": (
        scorer(FILTER) + strategies("name: rules, rules: [{metric: memory, operator: GreaterThan, target: 60}]"),
        [
            "thresholds.high.memory: the filter accepts nodes up to 80%",
            "descheduler.strategies[0].rules evicts pods above memory 60%: lower the first to 60, raise the second",
        ],
    ),
    "the filter by rules above a rule that empties nodes": (
        scorer(FILTER, "policy: {name: rules, avoid: [{metric: pressure.io, operator: GreaterThan, target: 30}]}")
        + strategies("name: rules, rules: [{metric: pressure.io, operator: GreaterThan, target: 20}]"),
        [
            "scorer.policy.avoid: pressure.io: the filter accepts nodes up to 30%",
            "descheduler.strategies[0].rules evicts pods above pressure.io 20%",
        ],
    ),
    "the filter by rules above a threshold": (
        scorer(FILTER, "policy: {name: rules, avoid: [{metric: cpu, operator: GreaterThan, target: 90}]}"),
        ["scorer.policy.avoid: cpu: the filter accepts nodes up to 90%", "high.cpu 65%"],
    ),
    "emptying what was filled": (
        PACKING + strategies("name: bin_pack, thresholds: {cpu: 38}, headroom: 5"),
        ["descheduler.strategies[0].thresholds.cpu", "38%", "40% only"],
    ),
    "no gap between sparse and filled": (
        scorer("neutral: true") + strategies("name: bin_pack, thresholds: {memory: 66}"),
        ["descheduler.strategies[0]: thresholds.memory (66)", "headroom 10"],
    ),
}

ACCEPTED = {
    "the defaults": "",
    "the filter at the shared marks": scorer(FILTER),
    "a pool below the shared marks without a filter": strategies(f"name: low_node_load, {POOL}, high: {{cpu: 55}}}}]"),
    "load_aware by the shared marks": scorer(FILTER, "policy: {name: load_aware}"),
    "load_aware without a filter": scorer("policy: {name: load_aware, usageThresholds: {cpu: 95}}"),
    "a rule at the threshold up to which nodes are filled": strategies(
        "name: low_node_load", "name: rules, rules: [{metric: cpu, operator: GreaterThan, target: 65}]"
    ),
    "a rule at the limit of the filter": scorer(FILTER)
    + strategies("name: rules, rules: [{metric: cpu, operator: GreaterThan, target: 65}]"),
    "a rule below the limit of the policy, without a filter": scorer(
        "policy: {name: rules, avoid: [{metric: cpu, operator: GreaterThan, target: 90}]}"
    )
    + strategies("name: rules, rules: [{metric: cpu, operator: GreaterThan, target: 80}]"),
    "a rule about several metrics at once beside the filter": scorer(FILTER)
    + strategies(
        "name: rules, match: all, rules: [{metric: cpu, operator: GreaterThan, target: 50}, "
        "{metric: pressure.cpu, operator: GreaterThan, target: 5}]"
    ),
    "a rule that empties idle nodes only if they are hot in another metric": strategies(
        "name: low_node_load",
        "name: rules, match: all, rules: [{metric: cpu, operator: GreaterThan, target: 50}, "
        "{metric: pressure.io, operator: LessThan, target: 5}]",
    ),
    "a rule that empties idle nodes, alone, the scorer packs": PACKING
    + strategies("name: rules, rules: [{metric: cpu, operator: LessThan, target: 20}]"),
    "a rule that empties idle nodes, alone": strategies(
        "name: rules, rules: [{metric: cpu, operator: LessThan, target: 20}]"
    ),
    "packing well below a rule that empties nodes": PACKING
    + strategies("name: rules, rules: [{metric: cpu, operator: GreaterThan, target: 50}]"),
    "packing beside a rule about another metric": PACKING
    + strategies("name: rules, rules: [{metric: memory, operator: GreaterThan, target: 30}]"),
    "a rule that empties idle nodes of another pool": strategies(
        "name: rules, nodeSelector: {matchLabels: {pool: a}}, rules: [{metric: cpu, operator: LessThan, target: 20}]",
        "name: level_day, nodeSelector: {matchLabels: {pool: b}}",
    ),
    "packing well below the threshold": PACKING + strategies("name: low_node_load"),
    "packing beside the default strategy": PACKING,
    "packing in a pool that is not levelled": PACKING
    + strategies(
        f"name: low_node_load, deviation: {{high: {{memory: 8}}, low: {{memory: 8}}}}, {POOL}, deviation: off}}]"
    ),
    "a window of one's own": "load: {windows: [{name: 7m, length: 7m, refreshPeriod: 30s}]}\n"
    + strategies("name: low_node_load, windows: [7m]"),
    "bin_pack alone, the scorer packs": PACKING + strategies("name: bin_pack"),
    "bin_pack alone, the scorer looks on": scorer("neutral: true") + strategies("name: bin_pack"),
    "bin_pack and low_node_load, each for its nodes": PACKING
    + strategies(
        "name: low_node_load, nodeSelector: {matchLabels: {pool: web}}",
        "name: bin_pack, nodeSelector: {matchLabels: {pool: batch}}",
    ),
}


@pytest.mark.parametrize(("text", "expected"), REFUSED.values(), ids=REFUSED)
def test_conflicting_settings_are_refused(text: str, expected: list[str]) -> None:
    """By `equipoise config validate`, with the path of the setting and what to change."""
    with pytest.raises(ConfigurationError) as caught:
        validate_document(HEADER + text, SERVICE_SETTINGS)

    assert all(part in str(caught.value) for part in expected), str(caught.value)


BELOW = "name: rules, rules: [{metric: memory, operator: LessThan, target: 5}]"


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("emptying", ["name: bin_pack", BELOW])
def test_every_strategy_of_the_table_conflicts_with_one_that_empties_idle_nodes(name: str, emptying: str) -> None:
    """All others move pods to the nodes that are used least. Two `bin_pack` agree."""
    other = "name: rules, rules: [{metric: pressure.io, operator: GreaterThan, target: 90}]" if name == "rules" else (
        f"name: {name}"
    )  # fmt: skip
    document = read_document(HEADER + scorer("neutral: true") + strategies(other, emptying))
    conflicts = ping_pong.configuration_conflicts(document, Thresholds())

    assert bool(conflicts) == (not name == "bin_pack" == emptying.removeprefix("name: "))


@pytest.mark.parametrize("text", ACCEPTED.values(), ids=ACCEPTED)
def test_consistent_settings_are_accepted(text: str) -> None:
    validate_document(HEADER + text, SERVICE_SETTINGS)


@pytest.mark.parametrize("service", ["scorer", "descheduler", "binder"])
@pytest.mark.parametrize("text", [text for text, _ in REFUSED.values()], ids=REFUSED)
def test_every_service_that_uses_thresholds_refuses_to_start(service: ServiceName, text: str) -> None:
    """Though each validates only its own section."""
    with pytest.raises(ConfigurationError):
        read_sections(read_document(HEADER + text), {service: SERVICE_SETTINGS[service]})


@pytest.mark.parametrize("service", ["collector", "annotator"])
def test_services_without_thresholds_start(service: ServiceName) -> None:
    """So does a command that reads no section: pause must work with any configuration."""
    document = read_document(HEADER + REFUSED["packing beside levelling"][0])

    read_sections(document, {service: SERVICE_SETTINGS[service]})
    read_sections(document, {})


@pytest.mark.parametrize(
    "section",
    [
        {"scorer": 1, "descheduler": []},
        {"scorer": {"policy": 3, "extender": "x"}, "descheduler": {"strategies": {"name": "bin_pack"}}},
        {"descheduler": {"strategies": [None, {"name": 4}, {"name": "low_node_load", "pools": "x", "deviation": 3}]}},
        {
            "descheduler": {
                "strategies": [{"name": "bin_pack", "thresholds": 3, "headroom": "much", "nodeSelector": []}]
            }
        },
        {
            "descheduler": {
                "strategies": [
                    {"name": "low_node_load"},
                    {
                        "name": "rules",
                        "rules": [1, {"metric": 3, "operator": "GreaterThan", "target": "x"}],
                        "match": 4,
                    },
                    {"name": "rules", "rules": {"operator": "LessThan"}},
                ]
            }
        },
        {"scorer": {"policy": {"name": "target_load_packing", "targetUtilization": None}}},
        {"scorer": {"extender": {"filter": True}, "policy": {"name": "mix", "parts": [1, {"policy": None}]}}},
    ],
)
def test_invalid_sections_of_other_services_are_ignored(section: Mapping[str, Any]) -> None:
    """Another version of another service may have settings that this one does not know."""
    shared, _ = read_sections({}, {})

    assert isinstance(ping_pong.configuration_conflicts(section, shared.thresholds), list)


def test_the_defaults_are_those_of_the_services() -> None:
    """They are repeated here, because contracts cannot import services."""
    bin_pack, predicates = BinPack(), Dynamic().predicates

    assert str(DeschedulerSettings().intent_lifetime) == ping_pong.INTENT_LIFETIME
    assert str(BinderSettings().max_intent_lifetime) == ping_pong.MAX_INTENT_LIFETIME
    assert TargetLoadPacking().target_utilization == ping_pong.PACKING_TARGET
    assert (bin_pack.headroom, bin_pack.thresholds) == (ping_pong.HEADROOM, ping_pong.SPARSE)
    least = {each.resource: min(p.limit for p in predicates if p.resource == each.resource) for each in predicates}
    assert ResourceThresholds(**least) == ping_pong.DYNAMIC
    shared, own = read_sections(yaml.safe_load("{}"), SERVICE_SETTINGS)
    assert shared.thresholds
    assert own["scorer"].policy.__struct_config__.tag == "profile"
    tags = [strategy.__struct_config__.tag for strategy in own["descheduler"].chosen_strategies(None)]
    assert tags == ["low_node_load"]
