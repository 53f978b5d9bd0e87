"""What a policy scores beside CPU and memory may be unknown on some nodes: further resources and pressure."""

from collections.abc import Mapping

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scorer.clusters import a_demand, evenly, node_loads
from scorer.example_policies import EXAMPLES

from equipoise.contracts.load.metric_rule import PRESSURE_METRICS
from equipoise.contracts.numeric import Array
from equipoise.scorer.decisions.arrays import CandidateNodes, ClusterLoad, FurtherLoads, LoadRanges
from equipoise.scorer.decisions.policies import ScoringPolicy
from equipoise.scorer.decisions.policies.mix import Mix, MixPart
from equipoise.scorer.decisions.policies.pressure import PressurePolicy
from equipoise.scorer.decisions.policies.profile import ProfilePolicy
from equipoise.scorer.decisions.policies.rules import MetricRules, Preference
from equipoise.scorer.decisions.policies.water_level import WaterLevel

METRICS = ("network", *PRESSURE_METRICS)

PREFERRING = {
    f"rules: {operator} {metric}": MetricRules(prefer=Preference(metric=metric, operator=operator))
    for metric in METRICS
    for operator in ("LessThan", "GreaterThan")
}
WITH_TERMS: Mapping[str, ScoringPolicy] = {
    **PREFERRING,
    "pressure": PressurePolicy(),
    "water_level": WaterLevel(further_weights={"network": 1.0}),
    "profile": ProfilePolicy(further_weights={"network": 2.0}),
    "mix": Mix(
        parts=(
            MixPart(policy=WaterLevel(further_weights={"network": 1.0})),
            MixPart(policy=PressurePolicy(), weight=0.5),
            MixPart(policy=PREFERRING["rules: LessThan network"]),
        )
    ),
}
"""Policies with terms besides the load of CPU and memory."""

every_policy = pytest.mark.parametrize("policy", [*EXAMPLES.values(), *WITH_TERMS.values()])

shares = st.floats(0.0, 0.99)


def with_terms(load: Array, terms: Array) -> CandidateNodes:
    """Nodes with `terms` (nodes × METRICS) and, as the pressure of the policy `pressure`, the second of them."""
    nodes = node_loads(load)
    further = FurtherLoads(
        names=METRICS, load=terms, lacking=np.zeros(terms.shape, dtype=np.bool_), of_all=LoadRanges.of(terms)
    )
    waiting = terms[:, 1]
    return msgspec.structs.replace(
        nodes, further=further, waiting=waiting, cluster=ClusterLoad(nodes.cluster.load, waiting)
    )


def among(nodes: CandidateNodes, others: CandidateNodes) -> CandidateNodes:
    """The nodes in the cluster of `others`, so that both differ in nothing but their own values."""
    assert nodes.further is not None
    assert others.further is not None
    further = msgspec.structs.replace(nodes.further, of_all=others.further.of_all)
    return msgspec.structs.replace(nodes, further=further, cluster=others.cluster)


@every_policy
@given(
    loads=st.lists(st.floats(1, 90), min_size=2, max_size=5),
    terms=st.lists(st.tuples(*(shares for _ in METRICS)), min_size=5, max_size=5),
    term=st.integers(0, len(METRICS) - 1),
)
def test_a_node_whose_term_is_unknown_scores_as_one_with_the_worst_that_is_known(
    policy: ScoringPolicy, loads: list[float], terms: list[tuple[float, ...]], term: int
) -> None:
    """Neither better than any node that is measured, nor worse, as if it were avoided."""
    load, known = evenly(loads), np.array(terms[: len(loads)])
    unknown = known.copy()
    unknown[0, term] = np.nan
    cluster = with_terms(load, unknown)

    def score_with(value: float) -> float:
        known[0, term] = value
        return float(policy.score(among(with_terms(load, known), cluster), a_demand(1.0))[0])

    score = float(policy.score(cluster, a_demand(1.0))[0])

    assert score == pytest.approx(min(score_with(value) for value in unknown[1:, term]))


@every_policy
@given(loads=st.lists(st.floats(1, 90), min_size=2, max_size=5))
def test_without_any_known_term_only_loads_decide(policy: ScoringPolicy, loads: list[float]) -> None:
    """Nodes of the same load score alike, and none scores 0 for what is not known."""
    nothing = np.full((len(loads), len(METRICS)), np.nan)
    nodes = with_terms(evenly([loads[0]] * len(loads)), nothing)
    plain = node_loads(evenly([loads[0]] * len(loads)))

    scores = policy.score(nodes, a_demand(1.0))

    assert np.allclose(scores, scores[0])
    assert (scores[0] > 0.0) == (policy.score(plain, a_demand(1.0))[0] > 0.0)
