"""Laws that every scoring policy keeps. A new policy is under them by its line in the table."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scorer.fleets import a_demand, demand_of, evenly, node_loads

from equipoise.scorer.decisions.policies import POLICIES, ScoringPolicy
from equipoise.scorer.decisions.policies.mix import Mix, Part
from equipoise.scorer.decisions.policies.profile import Profile
from equipoise.scorer.decisions.policies.single import SINGLE
from equipoise.scorer.decisions.policies.water_level import WaterLevel
from equipoise.scorer.state.arrays import Array, Demand

shares = st.one_of(st.just(np.nan), st.floats(0, 2), st.sampled_from([0.0, 1.0, 1e-12]))
fleets = st.integers(1, 8).flatmap(lambda count: arrays(np.float64, (count, 4, 2), elements=shares))
demands = arrays(np.float64, (4, 2), elements=st.floats(0, 1e9)).map(demand_of)
EXAMPLES: dict[str, ScoringPolicy] = {
    "mix": Mix(parts=(Part(policy=WaterLevel(), weight=2.0), Part(policy=Profile()))),
    **{name: kind() for name, kind in SINGLE.items()},
}
every_policy = pytest.mark.parametrize("policy", EXAMPLES.values(), ids=EXAMPLES)


def test_every_policy_of_the_table_is_under_the_laws() -> None:
    """A policy that cannot be made without settings needs an example here."""
    assert EXAMPLES.keys() == POLICIES.keys()


@every_policy
@given(load=fleets, demand=demands)
def test_scores_lie_between_0_and_100(policy: ScoringPolicy, load: Array, demand: Demand) -> None:
    """One finite score of 0..100 per node, whatever is known."""
    scores = policy.score(node_loads(load), demand)

    assert scores.shape == (len(load),)
    assert np.all((scores >= 0.0) & (scores <= 100.0))


@every_policy
@given(load=fleets, demand=demands)
def test_an_unknown_node_is_never_preferred(policy: ScoringPolicy, load: Array, demand: Demand) -> None:
    """A node of unknown load scores no better than any other."""
    load[0] = np.nan

    scores = policy.score(node_loads(load), demand)

    assert scores[0] == scores.min()


@every_policy
@given(load=fleets, demand=demands)
def test_the_same_question_has_the_same_answer(policy: ScoringPolicy, load: Array, demand: Demand) -> None:
    """Scoring is pure: it changes neither its arguments nor itself."""
    nodes = node_loads(load.copy())
    first = policy.score(nodes, demand)

    assert np.array_equal(first, policy.score(nodes, demand))
    assert np.array_equal(nodes.load, load, equal_nan=True)


@every_policy
@given(load=fleets, demand=demands, randomness=st.randoms(use_true_random=False))
def test_the_order_of_nodes_does_not_matter(
    policy: ScoringPolicy, load: Array, demand: Demand, randomness: object
) -> None:
    """kube-scheduler asks in another order every time."""
    order = list(range(len(load)))
    randomness.shuffle(order)  # type: ignore[attr-defined]

    assert np.allclose(
        policy.score(node_loads(load[order]), demand), policy.score(node_loads(load), demand)[order], atol=1e-6
    )


@every_policy
@given(load=fleets)
def test_which_candidates_are_asked_about_does_not_matter(policy: ScoringPolicy, load: Array) -> None:
    """A node's score hangs on the fleet, not on who else is a candidate."""
    whole = policy.score(node_loads(load), a_demand(1.0))

    assert np.allclose(policy.score(node_loads(load[:1], load), a_demand(1.0)), whole[:1])


@every_policy
@given(load=fleets, factor=st.floats(0.01, 100))
def test_the_unit_of_an_amount_does_not_matter(policy: ScoringPolicy, load: Array, factor: float) -> None:
    """Nodes and pod all so many times larger: the same scores."""
    nodes, demand = node_loads(load), a_demand(3.0)
    days = msgspec.structs.replace(nodes.days, base=factor * nodes.days.base) if nodes.days is not None else None
    larger = msgspec.structs.replace(nodes, base=factor * nodes.base, days=days)

    scores = policy.score(larger, demand_of(factor * demand.usage))

    assert np.allclose(scores, policy.score(nodes, demand), atol=1e-6)


@every_policy
@given(loads=st.lists(st.floats(0, 120), min_size=1, max_size=8), lower=st.floats(0, 120), more=st.floats(0, 120))
def test_a_fuller_node_above_its_mark_scores_no_better(
    policy: ScoringPolicy, loads: list[float], lower: float, more: float
) -> None:
    """The mark is the level that the policy leads nodes to; where it has none, every load lies above it."""
    fleet = evenly(loads)
    level = policy.level(node_loads(fleet))
    mark = 100 * max(level.cpu or 0.0, level.memory or 0.0)

    emptier, fuller = policy.score(node_loads(evenly([mark + lower, mark + lower + more]), fleet), a_demand(1.0))

    assert fuller <= emptier + 1e-9


@every_policy
def test_a_policy_says_where_it_looks(policy: ScoringPolicy) -> None:
    """Every policy names windows, or looks at days; the chain of its demand ends in something always known."""
    assert policy.windows or policy.looks_at_days
    assert policy.demand_chain[-1] == "default"
