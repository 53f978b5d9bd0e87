"""The Dynamic plugin of crane-scheduler: its filter, its score, and the hot value of a burst."""

from typing import Literal

import msgspec
import numpy as np
from builders import NOW, a_node_utilization, a_placement
from peers.cases import Case, Inputs, every_case, peer_cases
from scorer.clusters import a_demand, evenly, node_loads

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.messages.utilization import WindowUsage
from equipoise.contracts.messages.values.resources import Resources
from equipoise.scorer.decisions.arrays import CandidateNodes
from equipoise.scorer.decisions.policies.dynamic import Dynamic, HotValue, Predicate, Priority
from equipoise.scorer.state.node_table import NodeTable
from equipoise.scorer.state.recent_placements import RecentPlacements

Metric = tuple[str, Literal["mean", "max"], Literal["cpu", "memory"]]
METRICS: dict[str, Metric] = {
    "cpu_usage_avg_5m": ("5m", "mean", "cpu"),
    "cpu_usage_max_avg_1h": ("1h", "max", "cpu"),
    "cpu_usage_max_avg_1d": ("1d", "max", "cpu"),
    "mem_usage_avg_5m": ("5m", "mean", "memory"),
    "mem_usage_max_avg_1h": ("1h", "max", "memory"),
    "mem_usage_max_avg_1d": ("1d", "max", "memory"),
}
"""crane's annotations, and the statistic of ours that each of them is."""

POD = a_demand(1.0)


def a_policy(shipped: Inputs) -> Dynamic:
    """crane's policy file in our settings; one placement costs one hot value."""
    predicates, priorities = [], []
    for entry in shipped["predicate"]:
        window, statistic, resource = METRICS[entry["name"]]
        limit = round(100 * entry["max"], 6)
        predicates.append(Predicate(window=window, statistic=statistic, resource=resource, limit=limit))
    for entry in shipped["priority"]:
        window, statistic, resource = METRICS[entry["name"]]
        priorities.append(Priority(window=window, statistic=statistic, resource=resource, weight=entry["weight"]))
    hot_value = (HotValue(span=Duration(300), count=1),)
    return Dynamic(predicates=tuple(predicates), priorities=tuple(priorities), hot_value=hot_value)


def a_node(policy: Dynamic, inputs: Inputs) -> CandidateNodes:
    """The node as the scorer receives it: the values of its annotations, each window as old as its oldest value.

    A metric that crane's syncPolicy does not name is not measured. How old a value may be is for the product to decide.
    """
    measured = {entry["name"] for entry in inputs["policy"]["sync"]}
    values: dict[str, dict[str, float]] = {}
    ages: dict[str, float] = {}
    for name, (usage, age) in inputs["annotations"].items():
        if name in measured:
            window, _, resource = METRICS[name]
            values.setdefault(window, {})[resource] = float(usage)
            ages[window] = max(age, ages.get(window, 0.0))
    windows = {
        name: WindowUsage(sampled_at=NOW - ages[name], mean=Resources(**usage), max=Resources(**usage))
        for name, usage in values.items()
    }
    utilization = a_node_utilization(
        base=Resources(cpu=1.0, memory=1.0), windows=windows, sampled_at=NOW - min(ages.values(), default=0.0)
    )
    table = NodeTable(LoadSettings(), policy.demand_chain, statistics=policy.statistics)
    table.on_placement(a_placement(pods=[]), NOW)
    table.on_utilization(utilization, NOW)
    nodes = table.candidates(["node-a"], table.rows(["node-a"]), NOW)
    hot, _ = inputs["annotations"].get("node_hot_value", ("0", 0))
    return msgspec.structs.replace(nodes, recent_placements=np.array([[float(hot)]]))


@peer_cases("crane_filter")
def test_filter(case: Case) -> None:
    """A node above a limit is refused, and the first such predicate is named; what is unknown refuses no node."""
    policy = a_policy(case.inputs["policy"])
    demand = msgspec.structs.replace(POD, daemon=case.inputs["daemonset"])

    refused = policy.refuse(a_node(policy, case.inputs), demand)

    why = refused.get("node-a", "")
    names = [name for name, (window, what, resource) in METRICS.items() if f"{resource} {what} of {window} " in why]
    case.check(filtered=bool(refused), by=names[0] if names else None)


@peer_cases("crane_score")
def test_score(case: Case) -> None:
    """crane rounds the base down to an integer; the hot value is taken off."""
    inputs = case.inputs
    if "policy" in inputs:
        policy = a_policy(inputs["policy"])
        node = a_node(policy, inputs)
    else:  # only sums are published: one statistic has all of the sum, an unknown one the rest of the weight
        weights = {"5m": 1.0, "1d": inputs["total_weight"] - 1.0}
        policy = Dynamic(
            priorities=tuple(Priority(window=name, resource="cpu", weight=weight) for name, weight in weights.items()),
            hot_value=(HotValue(span=Duration(300), count=1),),
        )
        load = evenly([100.0 - inputs["weighted_sum"]])
        load[:, 3] = np.nan
        node = node_loads(load, recent_placements=np.array([[float(inputs["hot_value"])]]))

    without_hot_value = msgspec.structs.replace(node, recent_placements=np.zeros((1, 1)))

    case.check(
        rounding="down", base=policy.score(without_hot_value, POD)[0].item(), final=policy.score(node, POD)[0].item()
    )


@peer_cases("crane_hot_value")
def test_hot_value(case: Case) -> None:
    """Each full count of pods within its span makes one; a pod exactly as old as the span is out."""
    policy = Dynamic(
        hot_value=tuple(
            HotValue(span=Duration(entry["range_s"]), count=entry["count"]) for entry in case.inputs["policy"]
        )
    )
    placements = RecentPlacements(policy.placement_spans)
    for age in case.inputs["binding_ages_s"]:
        placements.add(0, placed_at=1_000.0 - age, now=1_000.0)

    case.check(hot_value=policy.hot_values(placements.counts(1, policy.placement_spans, 1_000.0))[0].item())


@peer_cases("crane_binding_heap")
def test_every_placement_is_counted(case: Case) -> None:
    """crane keeps a fixed number of bindings for the whole cluster and drops the oldest one."""
    bindings = case.inputs["bindings"]
    now = max(binding["ts"] for binding in bindings)
    placements = RecentPlacements((300.0,))
    for row, binding in enumerate(bindings):
        placements.add(row, binding["ts"], now)

    counts = placements.counts(len(bindings), (300.0,), now)[:, 0]

    case.check(kept=[binding["pod"] for binding, count in zip(bindings, counts, strict=True) if count])


def test_the_defaults_are_those_of_the_shipped_policy() -> None:
    """Predicates, weights and hot values of crane's policy file, in its order."""
    shipped = a_policy(every_case()["cranef-01"].inputs["policy"])
    policy = Dynamic()

    assert policy == msgspec.structs.replace(shipped, hot_value=policy.hot_value)
    assert [(hot.span, hot.count) for hot in policy.hot_value] == [(300.0, 5), (60.0, 2)]
