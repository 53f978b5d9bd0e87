"""The water_level policy: its formula, and the weights of windows and resources."""

import msgspec
import numpy as np
import pytest
from scorer.clusters import a_demand, evenly, node_loads

from equipoise.contracts.configuration.settings import Section
from equipoise.scorer.decisions.policies.water_level import ResourceWeights, WaterLevel, distance_score


def score(percent: float, level: float) -> float:
    return float(distance_score(np.array([percent]), np.array(level))[0])


def test_the_worked_example_of_the_design() -> None:
    """At a level of 20 %, nodes at 0, 4, 24, 49 and 98 % with a pod of 1 % score 24, 40, 19, 13 and almost 0."""
    scores = [score(node + 1, 20) for node in (0, 4, 24, 49, 98)]

    assert scores == [24.0, 40.0, 18.75, 12.5, 0.25]


def test_a_node_at_the_level_scores_highest() -> None:
    """The score rises to 100 at the level, and is at most the level above it."""
    assert score(20, 20) == 100.0
    assert score(20.001, 20) < 20.0


@pytest.mark.parametrize(("percent", "points"), [(0, 100.0), (0.001, 0.0), (50, 0.0), (100, 0.0), (101, 0.0)])
def test_at_level_0_only_an_empty_node_scores_100(percent: float, points: float) -> None:
    """Every other node scores 0: the limit of the formula."""
    assert score(percent, 0) == points


@pytest.mark.parametrize("level", [100, 130])
@pytest.mark.parametrize(("percent", "points"), [(0, 100.0), (99, 100.0), (100, 100.0), (100.1, 0.0)])
def test_at_level_100_every_usable_node_scores_100(level: float, percent: float, points: float) -> None:
    """Every node that would not be overfull."""
    assert score(percent, level) == points


def test_an_overfull_node_scores_0() -> None:
    """Above 100 % with the pod."""
    assert score(100.0001, 60) == 0.0


def test_the_emptiest_node_lowers_the_level() -> None:
    """level = (average + w·minimum)/(1 + w), over all fresh nodes of the cluster, not only the candidates."""
    cluster = evenly([10, 40, 70, np.nan])

    level = WaterLevel().level(node_loads(cluster[:1], cluster))

    assert level.cpu == pytest.approx((0.40 + 0.2 * 0.10) / 1.2)
    assert level.memory == level.cpu


def test_each_window_and_resource_has_its_own_level() -> None:
    """A score is the weighted mean of the scores of each window and resource at its own level."""
    load = evenly([10, 30])
    load[:, 1, 0] = [0.5, 0.9]  # the 15m window of cpu
    policy = WaterLevel(window_weights={"15m": 1.0, "1h": 3.0}, resource_weights=ResourceWeights(cpu=1.0, memory=0.0))
    high, low = (70 + 0.2 * 50) / 1.2, (20 + 0.2 * 10) / 1.2

    scores = policy.score(node_loads(load), a_demand(1.0))

    assert scores[0] == pytest.approx((score(51, high) + 3 * score(11, low)) / 4)


def test_an_unknown_window_does_not_count() -> None:
    """A new node is scored by its known windows, not as if the others were empty."""
    load = evenly([10, 10, 40])
    load[1, 2:] = np.nan

    scores = WaterLevel().score(node_loads(load), a_demand(1.0))

    assert scores[1] > 0.0
    assert scores[1] == pytest.approx(scores[0], rel=0.2)


def test_an_unknown_node_scores_0() -> None:
    """It counts as full."""
    load = evenly([10, 40])
    load[0] = np.nan

    assert WaterLevel().score(node_loads(load), a_demand(1.0))[0] == 0.0


def test_only_the_windows_of_the_policy_count() -> None:
    """The 5m window is measured, but not used by default."""
    load = evenly([10, 40])
    load[0, 1:] = np.nan

    assert WaterLevel().score(node_loads(load), a_demand(1.0))[0] == 0.0


def test_an_empty_cluster_has_no_level() -> None:
    """All scores are 0, and the level is unknown."""
    load = np.full((2, 4, 2), np.nan)

    assert WaterLevel().score(node_loads(load), a_demand(1.0)).tolist() == [0.0, 0.0]
    assert WaterLevel().level(node_loads(load)).cpu is None
    assert WaterLevel().score(node_loads(load[:0]), a_demand(1.0)).tolist() == []


class _Holder(Section, frozen=True, kw_only=True):
    policy: WaterLevel = WaterLevel()


def test_settings_are_written_in_camel_case() -> None:
    """clusterCpuMinNodeWeight, as in the document of the water-level scheduler."""
    document = {"policy": {"name": "water_level", "clusterCpuMinNodeWeight": 0.5, "windowWeights": {"1h": 1}}}

    policy = msgspec.convert(document, _Holder).policy

    assert (policy.cluster_cpu_min_node_weight, policy.windows) == (0.5, ("1h",))


@pytest.mark.parametrize(
    "fault",
    [
        {"windowWeights": {}},
        {"windowWeights": {"15m": 0}},
        {"windowWeights": {"15m": -1}},
        {"resourceWeights": {"cpu": 0, "memory": 0}},
        {"clusterCpuMinNodeWeight": -0.1},
        {"name": "fire_level"},
        {"clusterCPUMinNodeWeight": 0.2},
    ],
)
def test_settings_without_weights_are_refused(fault: dict[str, object]) -> None:
    """Weights of 0 or less, the name of another policy, and misspelled fields."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"policy": fault}, _Holder)
