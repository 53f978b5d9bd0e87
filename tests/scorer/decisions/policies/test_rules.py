"""rules: nodes are avoided, refused and preferred by single metrics; and further resources in other policies."""

import msgspec
import numpy as np
import pytest
from builders import GIB, NOW, a_node_utilization, a_placement
from scorer.clusters import a_cycle, a_demand, a_pod, a_scoring_state, evenly, further_loads, node_loads

from equipoise.contracts.configuration.conflicts import configuration_conflicts
from equipoise.contracts.configuration.settings import (
    FurtherResource,
    FurtherThresholds,
    LoadSettings,
    ResourceThresholds,
    Thresholds,
)
from equipoise.contracts.load.metric_rule import MetricRule
from equipoise.contracts.messages.score import ExplainRequest
from equipoise.contracts.messages.utilization import NodeUtilization, ResourceStatus, WindowUsage
from equipoise.contracts.messages.values.pressure import NodePressure, Pressure
from equipoise.contracts.messages.values.resources import Resources
from equipoise.scorer.decisions.arrays import CandidateNodes
from equipoise.scorer.decisions.explanations.explanation import explain
from equipoise.scorer.decisions.policies.mix import Mix, MixPart
from equipoise.scorer.decisions.policies.profile import ProfilePolicy
from equipoise.scorer.decisions.policies.rules import MetricRules, Preference
from equipoise.scorer.decisions.policies.water_level import WaterLevel
from equipoise.scorer.decisions.scoring_settings import ScoringSettings
from equipoise.scorer.state.scoring_state import ScoringState

BUSY = MetricRule(metric="network", operator="GreaterThan", target=80)
LOAD = LoadSettings(resources={"network": FurtherResource(node="rate(sent[$window])", capacity=100)})
UNKNOWN = float("nan")


def nodes_with(network: list[float], cpu: list[float] | None = None) -> CandidateNodes:
    """Nodes with these loads of a further resource, in percent."""
    load = np.array(network)[:, np.newaxis] / 100
    nodes = node_loads(evenly(cpu or [50.0] * len(network)))
    return msgspec.structs.replace(nodes, further=further_loads("network", load))


def test_nodes_that_match_are_avoided_and_refused_with_the_value() -> None:
    """A node of unknown value matches nothing: it is not refused, and not avoided."""
    nodes, policy = nodes_with([90.0, 70.0, UNKNOWN]), MetricRules(avoid=(BUSY,))
    assert [0.0, 100.0, 100.0] == policy.score(nodes, a_demand(1.0)).tolist()
    assert {"node-0": "network 90.0 GreaterThan 80"} == policy.refuse(nodes, a_demand(1.0))


def test_all_rules_or_any_of_them_have_to_match() -> None:
    """With `all`, an unknown value is enough that none is avoided."""
    rules = (BUSY, MetricRule(metric="cpu", operator="LessThan", target=60))
    nodes = nodes_with([90.0, 90.0, UNKNOWN, 10.0], cpu=[50.0, 70.0, 50.0, 50.0])
    assert [0.0, 0.0, 0.0, 0.0] == MetricRules(avoid=rules).score(nodes, a_demand(1.0)).tolist()
    assert [0.0, 100.0, 100.0, 100.0] == MetricRules(avoid=rules, match="all").score(nodes, a_demand(1.0)).tolist()


def test_the_preferred_metric_is_the_score() -> None:
    """A small difference is a small one; one beyond 100 percent is as 100, and an unknown one as the worst."""
    nodes = nodes_with([30.0, 31.0, UNKNOWN, 150.0])
    lowest = MetricRules(prefer=Preference(metric="network")).score(nodes, a_demand(1.0))
    highest = MetricRules(prefer=Preference(metric="network", operator="GreaterThan")).score(nodes, a_demand(1.0))
    assert [70.0, 69.0, 0.0, 0.0] == lowest.tolist()
    assert [30.0, 31.0, 30.0, 100.0] == highest.tolist()


def test_a_preferred_metric_that_is_known_of_no_node_decides_nothing() -> None:
    """The other parts of a mix do."""
    nodes, demand = nodes_with([UNKNOWN] * 3, cpu=[20.0, 50.0, 70.0]), a_demand(1.0)
    prefer = MetricRules(prefer=Preference(metric="network"))
    mix = Mix(parts=(MixPart(policy=prefer), MixPart(policy=ProfilePolicy())))

    assert [50.0] * 3 == prefer.score(nodes, demand).tolist()
    assert np.allclose((50.0 + ProfilePolicy().score(nodes, demand)) / 2, mix.score(nodes, demand))


def test_a_node_of_unknown_load_scores_0() -> None:
    """Whatever its further resource is: no other policy could score it either."""
    nodes, demand = nodes_with([10.0, 10.0], cpu=[50.0, UNKNOWN]), a_demand(1.0)
    assert [100.0, 0.0] == MetricRules(avoid=(BUSY,)).score(nodes, demand).tolist()
    assert [90.0, 0.0] == MetricRules(prefer=Preference(metric="network")).score(nodes, demand).tolist()


def test_rules_without_a_rule_are_refused() -> None:
    """The message has an example."""
    with pytest.raises(ValueError, match="rules needs avoid or prefer"):
        MetricRules()


def test_a_metric_that_nothing_measures_is_a_conflict() -> None:
    """A misspelled name would never match."""
    document = {
        "load": {"resources": {"network": {"node": "x", "capacity": 1}}},
        "scorer": {"policy": {"name": "rules", "avoid": [{"metric": "netwrok"}, {"metric": "pressure.io"}]}},
        "descheduler": {"strategies": [{"name": "rules", "rules": [{"metric": "gpu"}]}]},
    }
    assert [
        "scorer.policy: load.resources measures no netwrok (but network): add it there, or correct the name",
        "descheduler.strategies[0]: load.resources measures no gpu (but network): add it there, or correct the name",
    ] == configuration_conflicts(document, Thresholds())


@pytest.mark.parametrize(
    "policy", [WaterLevel(further_weights={"network": 1.0}), ProfilePolicy(further_weights={"network": 1.0})]
)
def test_a_further_resource_is_weighed_beside_cpu_and_memory(policy: WaterLevel | ProfilePolicy) -> None:
    """Above the mean of all nodes a node loses points; a node of unknown load is as the one with the highest."""
    nodes = nodes_with([80.0, 20.0, 50.0, UNKNOWN])
    low, high, middle, unknown = policy.score(nodes, a_demand(1.0)).tolist()
    without = msgspec.structs.replace(policy, further_weights={}).score(nodes, a_demand(1.0))

    assert low < middle < high
    assert unknown == pytest.approx(low)
    assert middle == pytest.approx((without[2] + 50.0) / 2)


def test_a_full_node_scores_0_whatever_its_further_resources_are() -> None:
    """An idle network makes no room in memory."""
    nodes = nodes_with([0.0, 50.0], cpu=[100.0, 50.0])
    assert 0.0 == ProfilePolicy(further_weights={"network": 5.0}).score(nodes, a_demand(5.0))[0]


# From the messages of the collector


def a_utilization(node: str, sent: float | None, *, age: float = 5.0, waiting: float = 0.0) -> NodeUtilization:
    utilization = a_node_utilization(node)
    further = None if sent is None else {"network": sent}
    return msgspec.structs.replace(
        utilization,
        base=Resources(cpu=10.0, memory=64 * GIB, further={"network": 100.0}),
        windows={
            name: WindowUsage(sampled_at=usage.sampled_at, mean=msgspec.structs.replace(usage.mean, further=further))
            for name, usage in utilization.windows.items()
        },
        resources={"network": ResourceStatus(sampled_at=NOW - age)},
        pressure=NodePressure(sampled_at=NOW, waiting=Pressure(io=waiting)),
    )


def test_loads_of_further_resources_come_from_the_messages_and_become_outdated() -> None:
    """Each has the age of its own samples."""
    policy = MetricRules(avoid=(BUSY, MetricRule(metric="pressure.io", operator="GreaterThan", target=20)))
    state = a_scoring_state({}, load=LOAD, policy=policy)
    utilizations = [
        a_utilization("a", 90.0), a_utilization("b", 10.0), a_utilization("c", None),
        a_utilization("d", 90.0, age=175.0), a_utilization("e", 10.0, waiting=0.3),
    ]  # fmt: skip
    for utilization in utilizations:
        state.on_placement(a_placement(utilization.node), NOW)
        state.nodes.on_utilization(utilization, NOW)

    def refused(now: float) -> set[str]:
        demand, nodes, _ = state.inputs(a_pod(), [*"abcde", "unknown"], now)
        return set(policy.refuse(nodes, demand) or {})

    assert {"a", "d", "e"} == refused(NOW)
    assert {"a", "e"} == refused(NOW + 10)


def test_a_node_that_does_not_have_a_resource_is_as_one_at_the_mean() -> None:
    """Its message does not name the resource. One that names it without a value lacks the measurement."""
    policy = WaterLevel(further_weights={"network": 1.0})
    state = a_scoring_state({}, load=LOAD, policy=policy)
    without = msgspec.structs.replace(a_utilization("d", None), resources={})
    for utilization in (a_utilization("a", 90.0), a_utilization("b", 10.0), a_utilization("c", None), without):
        state.on_placement(a_placement(utilization.node), NOW)
        state.nodes.on_utilization(utilization, NOW)

    demand, nodes, _ = state.inputs(a_pod(), [*"abcd"], NOW)
    highest, lowest, unknown, lacking = policy.score(nodes, demand).tolist()
    assert unknown == pytest.approx(highest)
    assert lacking == pytest.approx((highest + lowest) / 2)


def test_the_filter_refuses_nodes_above_the_threshold_of_a_resource() -> None:
    """Even if no policy weighs it; a node of unknown load is not refused."""
    state = ScoringState(LOAD, ScoringSettings(), limits={"network": FurtherThresholds(high=70)})
    for name, sent in (("a", 90.0), ("b", 10.0), ("c", None)):
        state.on_placement(a_placement(name), NOW)
        state.nodes.on_utilization(a_utilization(name, sent), NOW)
    state.on_cycle(a_cycle(3), NOW)

    filtered = state.filter(a_pod(), ["a", "b", "c"], ResourceThresholds(), NOW)
    assert {"a": "network load is 90.0%, above 70%"} == filtered.refused


def test_an_explanation_has_the_loads_that_the_policy_uses() -> None:
    """Those that are known."""
    state = a_scoring_state({}, load=LOAD, policy=MetricRules(avoid=(BUSY,)))
    state.on_placement(a_placement("a"), NOW)
    state.nodes.on_utilization(a_utilization("a", 90.0), NOW)
    state.on_cycle(a_cycle(1), NOW)

    explained = explain(state, ExplainRequest(node="a"), NOW)
    assert [{"network": 0.9}] == [node.further for node in explained.nodes]


def test_a_removed_node_has_no_load_of_a_further_resource() -> None:
    """Its row is used for another node."""
    state = a_scoring_state({}, load=LOAD, policy=MetricRules(avoid=(BUSY,)))
    state.on_placement(a_placement("a"), NOW)
    state.nodes.on_utilization(a_utilization("a", 90.0), NOW)
    state.on_placement(msgspec.structs.replace(a_placement("a"), removed=True, sequence=9), NOW)

    _, nodes, _ = state.inputs(a_pod(), ["a"], NOW)
    assert nodes.further is not None
    assert np.isnan(nodes.further.load).all()


def test_without_a_policy_that_uses_them_nothing_is_kept() -> None:
    """cpu and memory cost what they did."""
    _, nodes, _ = a_scoring_state({"a": 1.0}, load=LOAD).inputs(a_pod(), ["a"], NOW)
    assert nodes.further is None
    assert None is WaterLevel().refuse(nodes, a_demand(1.0))
