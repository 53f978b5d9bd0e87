"""Neither scores nor evictions alone level the load; together they do. In the lab, so in virtual time.

`make chaos` shows the same on a real cluster (`tests/e2e/test_demo_in_full.py`).
"""

import pytest

from equipoise.contracts.configuration.duration import Duration
from equipoise.descheduler.decisions.strategies.level_day import LevelDay
from equipoise.descheduler.decisions.strategies.low_node_load import LowNodeLoad
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.lab.example import example_trace
from equipoise.lab.replay import Replay
from equipoise.lab.replay_plan import ReplayPlan, Settings
from equipoise.lab.results import STOCK, PlacementMode, RunFigures
from equipoise.scorer.decisions.placement_hints.settings import HintSettings
from equipoise.scorer.decisions.policies.profile import ProfilePolicy
from equipoise.scorer.settings import ScorerSettings

LEVEL = 20.0
"""Maximum spread of a level cluster, in points of percent."""


SELDOM = Settings(
    scorer=ScorerSettings(hints=HintSettings(interval=Duration(300))),
    descheduler=DeschedulerSettings(
        interval=Duration(3_600),
        consecutive_abnormalities=1,
        max_intents_per_evaluation=20,
        max_intents_per_node=5,
        strategies=(LowNodeLoad(), LevelDay()),
    ),
)
"""Evaluations take most of the time of a replay in which hot nodes stay hot."""


def figures(*, scores: bool, descheduler: bool, placement: PlacementMode = "extender") -> RunFigures:
    """Of the example, whose pods were placed by the stock scheduler."""
    plan = ReplayPlan(
        scenario="given",
        policy="profile" if scores else STOCK,
        scoring=ProfilePolicy() if scores else None,
        placement=placement,
        descheduler=descheduler,
        settings=SELDOM,
    )
    return Replay(example_trace(), plan).run().figures


@pytest.fixture(scope="module")
def both() -> RunFigures:
    return figures(scores=True, descheduler=True)


def test_scores_and_evictions_level_the_load(both: RunFigures) -> None:
    """With a tenth of the pods moved."""
    assert both.median_spread < LEVEL
    assert 0 < both.moved_share < 0.1


def test_replacements_run_where_planned_if_kube_scheduler_knows_the_scores(both: RunFigures) -> None:
    assert both.moves_landed > 0.9


def test_scores_alone_do_not_move_running_pods() -> None:
    """Without the descheduler nothing moves and the spread remains."""
    alone = figures(scores=True, descheduler=False)

    assert alone.moved == 0
    assert alone.median_spread > 3 * LEVEL


def test_replacements_run_where_planned_if_new_pods_have_hints() -> None:
    """Takes seconds: a replay of a whole trace."""
    hints = figures(scores=True, descheduler=True, placement="hints")

    assert hints.moved > 0
    assert hints.moves_landed > 0.9
    assert hints.median_spread < LEVEL


def test_evictions_alone_do_not_level_the_load(both: RunFigures) -> None:
    """Without scores, few replacements would run on their targets: the other pods stay.

    Takes seconds: a replay of a whole trace.
    """
    alone = figures(scores=False, descheduler=True)

    assert 0 < alone.moved < both.moved
    assert alone.moves_landed > 0.9
    assert alone.median_spread > 2 * LEVEL
