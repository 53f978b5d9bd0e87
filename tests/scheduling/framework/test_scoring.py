"""Scores of nodes, from those of the plugins and their weights."""

import numpy as np
import pytest
from scheduling.pods import a_framework, a_node, a_pod

from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.plugin_calls import PluginFailed
from equipoise.scheduling.model.arrays import Ints, Rows
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot

SNAPSHOT = ClusterSnapshot([a_node(f"node-{number}") for number in range(3)])


class Scores:
    """Returns these scores."""

    def __init__(self, name: str, scores: object) -> None:
        self.name = name
        self.scores = scores

    def score(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Ints:
        return self.scores  # type: ignore[return-value]  # what a plugin of a user returns is not checked by types


def test_scores_are_multiplied_by_their_weights() -> None:
    framework = a_framework(Scores("a", np.array([0, 50, 100])), Scores("b", [1, 2, 3]), a=2)

    found = framework.score(CycleState(), a_pod(), SNAPSHOT, SNAPSHOT.rows)

    assert found.weighted["a"].tolist() == [0, 100, 200]
    assert found.total.tolist() == [1, 102, 203]


@pytest.mark.parametrize(
    ("scores", "why"),
    [
        ([0.0, float("nan"), 1.0], "nan is not a number"),
        ([0, 101, 1], "101 is not within 0 and 100"),
        ([-1, 0, 0], "-1 is not within 0 and 100"),
        ([0.5, 1, 1], "scores are whole numbers"),
        ([1, 2], "3 scores were expected"),
    ],
)
def test_scores_that_cannot_be_used_name_their_plugin(scores: object, why: str) -> None:
    with pytest.raises(PluginFailed, match=f"^plugin Mine failed in score: [^:]*{why}"):
        a_framework(Scores("Mine", scores)).score(CycleState(), a_pod(), SNAPSHOT, SNAPSHOT.rows)
