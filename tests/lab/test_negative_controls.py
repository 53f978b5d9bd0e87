"""Neither scores nor evictions alone level the load; together they do. In the lab, so in virtual time.

`make chaos` shows the same on a real cluster (`tests/e2e/test_demo_in_full.py`).
"""

import pytest

from equipoise.lab.example import example_trace
from equipoise.lab.replay import Replay, ReplayPlan
from equipoise.lab.results import STOCK, RunFigures
from equipoise.scorer.decisions.policies.profile import ProfilePolicy

LEVEL = 20.0
"""Maximum spread of a level cluster, in points of percent."""


def figures(*, scores: bool, descheduler: bool) -> RunFigures:
    """Of the example, whose pods were placed by the stock scheduler."""
    plan = ReplayPlan(
        scenario="given",
        policy="profile" if scores else STOCK,
        scoring=ProfilePolicy() if scores else None,
        descheduler=descheduler,
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


def test_evictions_alone_do_not_level_the_load(both: RunFigures) -> None:
    """Without scores the stock scheduler places replacements on the nodes of the evicted pods: evictions do not end."""
    alone = figures(scores=False, descheduler=True)

    assert alone.moved > 10 * both.moved
    assert alone.moves_landed < 0.1
    assert alone.median_spread > 3 * LEVEL
