"""Laws that every scoring policy of the table keeps."""

import json

import msgspec
import numpy as np
import pytest
from builders import GIB, NOW, a_batch_pod, a_node_utilization, a_placed_pod
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scorer.clusters import a_demand, a_pod, a_scoring_state, demand_of, evenly, node_loads
from scorer.example_policies import EXAMPLES

from equipoise.contracts.configuration.settings import BatchWorkWeight, LoadSettings
from equipoise.contracts.messages.placement import PlacedPod
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.numeric import Array
from equipoise.runtime.configuration.errors import convert
from equipoise.scorer.decisions.arrays import Demand, Demands, expected_load
from equipoise.scorer.decisions.policies import SINGLE_POLICIES, ScoringPolicy
from equipoise.scorer.decisions.ranking import points_of, points_of_pods
from equipoise.scorer.settings import ScorerSettings

shares = st.one_of(st.just(np.nan), st.floats(0, 2), st.sampled_from([0.0, 1.0, 1e-12]))
clusters = st.integers(1, 8).flatmap(lambda count: arrays(np.float64, (count, 4, 2), elements=shares))
demands = arrays(np.float64, (4, 2), elements=st.floats(0, 1e9)).map(demand_of)
ordinary_pods = st.builds(
    a_placed_pod,
    priority_class=st.sampled_from(["prod", "mid", "batch"]),
    qos=st.sampled_from(["BestEffort", "Burstable"]),
    placed_at=st.floats(NOW - 2_000, NOW),
    running_since=st.one_of(st.none(), st.floats(NOW - 2_000, NOW)),
    terminating=st.booleans(),
)
"""None of them requests amounts of a band: best effort pods are of the class batch in every cluster."""

every_policy = pytest.mark.parametrize("policy", EXAMPLES.values(), ids=EXAMPLES)


def test_every_policy_of_the_table_has_an_example() -> None:
    """A policy with required settings needs an example here."""
    assert EXAMPLES.keys() == {*SINGLE_POLICIES, "mix"}


@every_policy
@given(load=clusters, demand=demands)
def test_scores_lie_between_0_and_100(policy: ScoringPolicy, load: Array, demand: Demand) -> None:
    """One finite score of 0..100 per node, whatever is known."""
    scores = policy.score(node_loads(load), demand)

    assert scores.shape == (len(load),)
    assert np.all((scores >= 0.0) & (scores <= 100.0))


@every_policy
@given(load=clusters, demand=demands)
def test_an_unknown_node_is_never_preferred(policy: ScoringPolicy, load: Array, demand: Demand) -> None:
    """A node of unknown load scores no better than any other."""
    load[0] = np.nan

    scores = policy.score(node_loads(load), demand)

    assert scores[0] == scores.min()


@every_policy
@given(load=clusters, demand=demands)
def test_scoring_is_pure(policy: ScoringPolicy, load: Array, demand: Demand) -> None:
    """The same arguments have the same result, and are not changed."""
    nodes = node_loads(load.copy())
    first = policy.score(nodes, demand)

    assert np.array_equal(first, policy.score(nodes, demand))
    assert np.array_equal(nodes.load, load, equal_nan=True)


@every_policy
@given(load=clusters, demand=demands, randomness=st.randoms(use_true_random=False))
def test_the_order_of_nodes_does_not_matter(
    policy: ScoringPolicy, load: Array, demand: Demand, randomness: object
) -> None:
    """kube-scheduler sends nodes in a different order every time."""
    order = list(range(len(load)))
    randomness.shuffle(order)  # type: ignore[attr-defined]

    assert np.allclose(
        policy.score(node_loads(load[order]), demand), policy.score(node_loads(load), demand)[order], atol=1e-6
    )


@every_policy
@given(load=clusters)
def test_other_candidates_do_not_change_the_score_of_a_node(policy: ScoringPolicy, load: Array) -> None:
    """It depends on the cluster only."""
    whole = policy.score(node_loads(load), a_demand(1.0))

    assert np.allclose(policy.score(node_loads(load[:1], load), a_demand(1.0)), whole[:1])


@every_policy
@given(load=clusters, pods=st.lists(demands, min_size=1, max_size=4))
def test_pods_scored_at_once_have_the_scores_of_each_alone(
    policy: ScoringPolicy, load: Array, pods: list[Demand]
) -> None:
    """A policy that scores many pods in one operation gives the same scores, except for rounding."""
    nodes = node_loads(load)
    alone = np.array([points_of(policy, nodes, pod)[0] for pod in pods])
    with_pod = np.array([expected_load(nodes, pod) for pod in pods])
    exactly_full = (np.abs(with_pod - 1.0) < 1e-9).any(axis=(2, 3))

    together = points_of_pods(policy, nodes, Demands.of(pods))

    assert np.all(np.isclose(together, alone, atol=1e-6) | exactly_full)


@every_policy
@given(load=clusters, factor=st.floats(0.01, 100))
def test_the_unit_of_an_amount_does_not_matter(policy: ScoringPolicy, load: Array, factor: float) -> None:
    """If nodes and pod are larger by the same factor, scores are equal."""
    nodes, demand = node_loads(load), a_demand(3.0)
    assert nodes.daily is not None
    daily = msgspec.structs.replace(nodes.daily, base=factor * nodes.daily.base)
    larger = msgspec.structs.replace(nodes, base=factor * nodes.base, daily=daily)

    scores = policy.score(larger, demand_of(factor * demand.usage))

    assert np.allclose(scores, policy.score(nodes, demand), atol=1e-6)


@every_policy
@given(loads=st.lists(st.floats(0, 120), min_size=1, max_size=8), lower=st.floats(0, 120), more=st.floats(0, 120))
def test_above_the_level_a_fuller_node_scores_no_better(
    policy: ScoringPolicy, loads: list[float], lower: float, more: float
) -> None:
    """The level is the one that the policy aims at; without one, it is 0."""
    cluster = evenly(loads)
    resources = policy.level(node_loads(cluster))
    level = 100 * max(resources.cpu or 0.0, resources.memory or 0.0)

    emptier, fuller = policy.score(node_loads(evenly([level + lower, level + lower + more]), cluster), a_demand(1.0))

    assert fuller <= emptier + 1e-9


@every_policy
def test_a_policy_uses_windows_or_daily_loads(policy: ScoringPolicy) -> None:
    """And the last source of its demand chain is always known."""
    assert policy.windows or policy.uses_daily_loads
    assert policy.demand_chain[-1] == "default"


@every_policy
def test_the_configuration_accepts_every_policy_of_the_table(policy: ScoringPolicy) -> None:
    """By its name, with the same settings."""
    fields = json.loads(msgspec.json.encode(policy, enc_hook=lambda duration: f"{duration:g}s"))

    assert fields["name"] == policy.policy_name()
    assert convert({"policy": fields}, ScorerSettings, "scorer").policy == policy


@every_policy
@given(
    cores=st.lists(st.floats(0, 12), min_size=1, max_size=5),
    pods=st.lists(ordinary_pods, max_size=5),
    weight=st.floats(0, 1),
)
def test_without_batch_work_its_weight_changes_no_score(
    policy: ScoringPolicy, cores: list[float], pods: list[PlacedPod], weight: float
) -> None:
    """Not by a bit: in a cluster without co-location nothing changes, whatever its pods are."""
    pods = [msgspec.structs.replace(pod, uid=str(number), name=str(number)) for number, pod in enumerate(pods)]

    def points(weights: BatchWorkWeight) -> Array:
        load = LoadSettings(batch_work_weight=weights)
        names = {f"node-{number}": cpu for number, cpu in enumerate(cores)}
        state = a_scoring_state(names, load=load, pods={"node-0": pods}, policy=policy)
        measured = {pod.uid: Resources(cpu=0.7, memory=GIB) for pod in pods[1:]}
        state.nodes.on_utilization(a_node_utilization("node-0", cores[0], pods=measured, sequence=2), NOW)
        demand, nodes, _ = state.inputs(a_pod(), list(names), NOW)
        return points_of(policy, nodes, demand)[0]

    assert np.array_equal(points(BatchWorkWeight(cpu=weight, memory=weight)), points(BatchWorkWeight(cpu=1.0)))


@every_policy
def test_batch_work_of_full_weight_is_scored_as_any_pods(policy: ScoringPolicy) -> None:
    """A pod of the band mid, which does not give way, has the same effect whatever the weight is."""

    def points(pod: PlacedPod, weight: float) -> list[float]:
        load = LoadSettings(batch_work_weight=BatchWorkWeight(cpu=weight, memory=weight))
        state = a_scoring_state({"node-a": 6.0, "node-b": 4.0}, load=load, pods={"node-a": [pod]}, policy=policy)
        measured = {pod.uid: Resources(cpu=3.0, memory=GIB)}
        state.nodes.on_utilization(a_node_utilization("node-a", 6.0, pods=measured, sequence=2), NOW)
        demand, nodes, _ = state.inputs(a_pod(), ["node-a", "node-b"], NOW)
        found: list[float] = points_of(policy, nodes, demand)[0].tolist()
        return found

    ordinary = a_batch_pod(priority=0, priority_class="mid", reclaimed_requests=Resources())

    assert points(ordinary, 0.2) == points(a_batch_pod(), 1.0)
