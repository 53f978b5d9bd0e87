"""rules: pods leave nodes whose metrics match rules."""

from collections.abc import Sequence

import msgspec
from builders import GIB, NOW
from descheduler.cluster_states import a_cluster, names
from descheduler.decisions.strategies.test_further_resources import a_sending_node, sending

from equipoise.contracts.configuration.settings import Namespaces
from equipoise.contracts.load.metric_rule import MetricRule
from equipoise.contracts.messages.values.pressure import NodePressure, Pressure
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.cluster_node import ClusterNode
from equipoise.descheduler.decisions.strategies.rules import MoveByRules

BUSY = MetricRule(metric="network", operator="GreaterThan", target=70)
STRATEGY = MoveByRules(rules=(BUSY,))


def moves(*nodes: ClusterNode, strategy: MoveByRules = STRATEGY) -> list[tuple[str, str]]:
    cluster = a_cluster(*nodes)
    return [(move.pod.name, move.target) for move in strategy.plan(cluster, names(cluster)).moves]


def refusals(*nodes: ClusterNode, strategy: MoveByRules = STRATEGY) -> Sequence[str]:
    cluster = a_cluster(*nodes)
    return [refused.why for refused in strategy.plan(cluster, names(cluster)).refused]


def test_a_node_that_matches_is_hot_with_the_value() -> None:
    """A node of unknown value matches nothing, and is no target either way."""
    cluster = a_cluster(a_sending_node("busy", 0.9), a_sending_node("quiet", 0.1), a_sending_node("silent", None))
    found = {node.node: (node.state, node.why) for node in STRATEGY.classify(cluster)}
    assert ("hot", "node matches the rules: network 90.0 GreaterThan 70") == found["busy"]
    assert {("between", "")} == {found["quiet"], found["silent"]}


def test_pods_leave_until_the_node_matches_no_more() -> None:
    """Those that do not use the metric stay."""
    pods = [sending("computes", 0.0), sending("sends-1", 0.15), sending("sends-2", 0.15), sending("sends-3", 0.15)]
    found = moves(a_sending_node("busy", 0.9, pods), a_sending_node("quiet", 0.1))
    assert [("sends-1", "quiet"), ("sends-2", "quiet")] == found


def test_one_pod_leaves_when_the_effect_on_the_metric_is_not_known() -> None:
    """For pressure, and for values that should rise, the next evaluation shows it."""
    pods = [sending("a", None), sending("b", None)]
    assert 1 == len(moves(a_sending_node("busy", 0.9, pods), a_sending_node("quiet", 0.1)))

    waiting = NodePressure(sampled_at=NOW, waiting=Pressure(io=0.5))
    by_pressure = MoveByRules(rules=(MetricRule(metric="pressure.io", operator="GreaterThan", target=20),))
    nodes = a_sending_node("waits", 0.1, pods, pressure=waiting), a_sending_node("quiet", 0.1)
    assert 1 == len(moves(*nodes, strategy=by_pressure))


def test_a_pending_move_counts_as_done() -> None:
    """Otherwise each evaluation would move another pod until the first has left."""
    pods = [sending("a", 0.3), sending("b", 0.3)]
    coming = Resources(cpu=0.0, memory=0.0, further={"network": -30.0})
    busy = a_sending_node("busy", 0.9, pods)
    assert 1 == len(moves(busy, a_sending_node("quiet", 0.1)))
    assert [] == moves(msgspec.structs.replace(busy, coming=coming), a_sending_node("quiet", 0.1))


def test_no_second_pod_leaves_before_the_effect_of_the_first_is_measured() -> None:
    """How much pressure a pod causes is not known."""
    waiting = NodePressure(sampled_at=NOW, waiting=Pressure(io=0.5))
    strategy = MoveByRules(rules=(MetricRule(metric="pressure.io", operator="GreaterThan", target=20),))
    nodes = a_sending_node("waits", 0.1, [sending("a", 0.0)], pressure=waiting, leaving=1), a_sending_node("quiet", 0.1)
    assert ["the effect of a pending move is not measured yet"] == refusals(*nodes, strategy=strategy)


def test_no_pod_moves_to_a_node_that_matches() -> None:
    """Even if it is the coolest one."""
    pods = [sending("a", 0.3)]
    assert [] == moves(a_sending_node("busy", 0.9, pods), a_sending_node("also-busy", 0.8, cpu=0.1))
    assert [("a", "quiet")] == moves(
        a_sending_node("busy", 0.9, pods), a_sending_node("also-busy", 0.8, cpu=0.1), a_sending_node("quiet", 0.1)
    )


def test_a_target_stays_below_a_target_of_cpu() -> None:
    """A rule about cpu is also the ceiling of those that are filled."""
    pods = [msgspec.structs.replace(sending("a", 0.0), usage=Resources(cpu=1.5, memory=GIB))]
    strategy = MoveByRules(rules=(MetricRule(metric="cpu", operator="GreaterThan", target=40),))
    nodes = a_sending_node("hot", 0.1, pods, cpu=5.0), a_sending_node("near", 0.1, cpu=3.0)
    assert [] == moves(*nodes, strategy=strategy)
    assert ["no target: cpu would be above the target's threshold (1 node)"] == refusals(*nodes, strategy=strategy)


def test_only_the_selected_namespaces_are_moved() -> None:
    """As in low_node_load."""
    pods = [sending("a", 0.3)]
    nodes = a_sending_node("busy", 0.9, pods), a_sending_node("quiet", 0.1)
    other = msgspec.structs.replace(STRATEGY, namespaces=Namespaces(include=("other",)))
    assert ["its namespace is excluded by the strategy"] == refusals(*nodes, strategy=other)


def test_a_target_does_not_match_the_rules_with_the_pod() -> None:
    """Otherwise the pod would move to and fro. The resource of the rule has no threshold of its own here."""
    busy = a_sending_node("busy", 0.9, [sending("a", 0.25)])
    near, free = a_sending_node("near", 0.6, cpu=1.0), a_sending_node("free", 0.1, cpu=3.0)
    assert ["no target: network would be above the target's threshold (1 node)"] == refusals(busy, near)
    assert [("a", "free")] == moves(busy, near, free)


def test_a_node_whose_metric_is_unknown_is_no_target_and_one_without_it_is() -> None:
    """As a target, a node of unknown load is full, whichever way the rule compares."""
    busy, unknown = a_sending_node("busy", 0.9, [sending("a", 0.25)]), a_sending_node("unknown", None)
    assert [] == moves(busy, unknown)
    assert [("a", "plain")] == moves(busy, unknown, a_sending_node("plain", None, resources={}, cpu=4.0))

    idle = MoveByRules(rules=(MetricRule(metric="network", operator="LessThan", target=20),))
    assert [] == moves(a_sending_node("idle", 0.1, [sending("a", 0.05)]), unknown, strategy=idle)


def test_the_pod_leaves_whose_usage_is_nearest_to_the_excess() -> None:
    """Not one after the other of those that use little. Pods that use next to nothing stay."""
    pods = [sending(f"small-{number}", 0.01) for number in range(6)] + [sending("large", 0.25)]
    assert [("large", "quiet")] == moves(a_sending_node("busy", 0.9, pods), a_sending_node("quiet", 0.1))

    pods = [sending("a", 0.001), sending("b", 0.004)]
    nodes = a_sending_node("busy", 0.9, pods), a_sending_node("quiet", 0.1)
    assert [] == moves(*nodes)
    assert {"it uses little or no network"} == set(refusals(*nodes))
