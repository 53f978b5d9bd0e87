"""The policy `pressure`, and what the scorer knows of pressure."""

import msgspec
import numpy as np
import pytest
from builders import NOW, a_node_utilization
from scorer.clusters import a_demand, a_scoring_state, node_loads

from equipoise.contracts.load.pressure import waiting_for_others
from equipoise.contracts.messages.values.pressure import MeasuredPodPressure, NodePressure, Pressure
from equipoise.contracts.numeric import Array
from equipoise.scorer.decisions.arrays import CandidateNodes, ClusterLoad
from equipoise.scorer.decisions.policies.mix import Mix, MixPart
from equipoise.scorer.decisions.policies.pressure import PressurePolicy
from equipoise.scorer.decisions.policies.water_level import WaterLevel

POLICY = PressurePolicy()


def waiting_nodes(*waiting: float, load: float = 0.3) -> CandidateNodes:
    nodes, shares = node_loads(np.full((len(waiting), 4, 2), load)), np.array(waiting)
    return msgspec.structs.replace(nodes, waiting=shares, cluster=ClusterLoad(nodes.cluster.load, shares))


def scores(nodes: CandidateNodes, policy: PressurePolicy | Mix = POLICY) -> list[float]:
    found: Array = policy.score(nodes, a_demand(1.0))
    return [float(score) for score in found]


def test_a_node_whose_pods_wait_scores_less() -> None:
    assert [100.0, 50.5, 1.0, 1.0] == scores(waiting_nodes(0.0, 0.25, 0.5, 0.9))


def test_unknown_pressure_is_as_the_highest_of_all_nodes() -> None:
    assert [100.0, 80.2, 80.2] == pytest.approx(scores(waiting_nodes(0.0, np.nan, 0.1)))
    assert [50.5, 50.5] == scores(waiting_nodes(np.nan, np.nan))


def test_without_measured_pressure_a_mix_ranks_nodes_as_its_other_part() -> None:
    mix = Mix(parts=(MixPart(policy=WaterLevel(), weight=3.0), MixPart(policy=POLICY)))
    loads = node_loads(np.array([[[share, share]] * 4 for share in (0.1, 0.5, 0.7)]))

    assert np.argsort(scores(loads, mix)).tolist() == np.argsort(WaterLevel().score(loads, a_demand(1.0))).tolist()


def test_a_node_that_the_pod_would_overfill_scores_0() -> None:
    assert [0.0] == scores(waiting_nodes(0.0, load=0.999))


@pytest.mark.parametrize(
    ("pressure", "waiting"),
    [
        (None, None),
        (NodePressure(sampled_at=NOW), None),
        (NodePressure(sampled_at=NOW, waiting=Pressure(cpu=0.2, memory=0.9, io=0.4)), 0.4),
        (
            NodePressure(
                sampled_at=NOW,
                waiting=Pressure(cpu=0.8),
                pods={"a": MeasuredPodPressure(cpu=0.8, throttled=0.5), "b": MeasuredPodPressure(cpu=0.1)},
            ),
            0.1,
        ),
        (NodePressure(sampled_at=NOW, waiting=Pressure(cpu=0.8), pods={"a": MeasuredPodPressure(throttled=0.5)}), None),
    ],
)
def test_waiting_at_the_own_limit_is_not_because_of_others(
    pressure: NodePressure | None, waiting: float | None
) -> None:
    assert waiting == waiting_for_others(pressure)


@pytest.mark.parametrize(("age", "waiting"), [(0.0, 0.3), (179.0, 0.3), (181.0, np.nan), (-60.0, np.nan)])
def test_the_scorer_takes_the_pressure_from_the_messages_if_it_is_fresh(age: float, waiting: float) -> None:
    state = a_scoring_state({"a": 1.0, "b": 1.0})
    pressure = NodePressure(sampled_at=NOW - age, waiting=Pressure(cpu=0.3))
    state.nodes.on_utilization(a_node_utilization("a", 1.0, pressure=pressure, sequence=2), NOW)

    candidates = state.nodes.candidates(["a", "b"], state.nodes.rows(["a", "b"]), NOW)
    assert candidates.waiting is not None
    assert np.array_equal([waiting, np.nan], candidates.waiting, equal_nan=True)
