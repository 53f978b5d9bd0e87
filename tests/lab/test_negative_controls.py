"""Neither placement nor eviction levels the load alone; together they do. In the lab, so in virtual time.

`make chaos` shows the same on a real cluster (`tests/e2e/test_demo_in_full.py`).
"""

import pytest

from equipoise.lab.example import example_trace
from equipoise.lab.replay import Replay, ReplayPlan
from equipoise.lab.results import STOCK, RunFigures
from equipoise.scorer.decisions.policies.profile import ProfilePolicy

LEVEL = 20.0
"""Points of percent between the hottest and the idlest node."""


def figures(*, scores: bool, descheduler: bool) -> RunFigures:
    """Of the example, whose pods are where the stock scheduler has put them."""
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


def test_scores_alone_do_not_level_what_already_runs() -> None:
    """Without the descheduler nothing moves and the spread remains."""
    alone = figures(scores=True, descheduler=False)

    assert alone.moved == 0
    assert alone.median_spread > 3 * LEVEL


def test_evictions_alone_do_not_level_the_load(both: RunFigures) -> None:
    """Without scores the stock scheduler puts replacements where the pods were: evictions never come to an end."""
    alone = figures(scores=False, descheduler=True)

    assert alone.moved > 10 * both.moved
    assert alone.median_spread > 3 * LEVEL
