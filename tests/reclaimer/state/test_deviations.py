"""What is learned of the deviations of nodes, step by step, and what is offered with it."""

import numpy as np
import pytest
from builders import NOW

from equipoise.reclaimer.decisions.learning import expect, learn
from equipoise.reclaimer.state.deviations import Deviations, Outlook

HOURS, QUARTER = 6, 900.0


def measured(deviations: Deviations, days: float, *levels: float, start: float = NOW) -> float:
    """Each node uses this much more than on its typical day. Returns the time of the end."""
    steps = int(days * 96)
    for step in range(steps):
        for index, level in enumerate(levels):
            used, typical = np.full(2, 0.3 + level), np.full((2, 24), 0.3)
            deviations.observe(f"node-{index}", "uid", used, typical, np.full(2, 0.1), start + step * QUARTER)
    return start + steps * QUARTER


def outlook(deviations: Deviations, now: float, node: str = "node-0") -> Outlook:
    while learn(deviations, now):
        pass
    while expect(deviations, now):
        pass
    found = deviations.outlook(node, "uid")
    assert found is not None
    return found


def test_a_constant_deviation_is_expected_after_some_days_and_its_errors_are_small() -> None:
    deviations = Deviations(HOURS)
    found = outlook(deviations, measured(deviations, 4, 0.1, 0.2, -0.1))
    assert found.deviation == pytest.approx(np.full((2, HOURS), 0.1), rel=0.05)
    assert abs(found.errors).max() < 0.01
    assert found.constant == pytest.approx([0.1, 0.1])


def test_until_two_days_are_measured_nothing_is_known() -> None:
    deviations = Deviations(HOURS)
    assert np.isnan(outlook(deviations, measured(deviations, 2, 0.1)).errors).all()


def test_hours_without_measurements_are_unknown() -> None:
    deviations = Deviations(HOURS)
    until = measured(deviations, 4, 0.1) + 3_600.0
    measured(deviations, 0.1, 0.1, start=until)
    assert np.isnan(outlook(deviations, until + 0.1 * 86_400).deviation).all()


def test_a_node_that_has_the_name_of_another_one_knows_nothing_of_it() -> None:
    deviations = Deviations(HOURS)
    now = measured(deviations, 4, 0.1)
    outlook(deviations, now)
    deviations.observe("node-0", "other", np.ones(2), np.ones((2, 24)), np.ones(2), now)
    assert deviations.outlook("node-0", "uid") is None
    found = deviations.outlook("node-0", "other")
    assert found is not None
    assert np.isnan(found.errors).all()


def test_more_nodes_than_rows_keep_what_they_know() -> None:
    deviations = Deviations(HOURS)
    now = measured(deviations, 4, 0.1)
    before = outlook(deviations, now).errors.copy()
    for number in range(600):
        deviations.observe(f"new-{number}", "uid", np.ones(2), np.ones((2, 24)), np.ones(2), now)
    assert outlook(deviations, now).errors == pytest.approx(before)


def test_after_a_clock_was_ahead_deviations_are_learned_anew() -> None:
    """Otherwise nothing would be learned until then, perhaps for years."""
    deviations = Deviations(HOURS)
    measured(deviations, 1, 0.5, start=NOW + 31_536_000)
    found = outlook(deviations, measured(deviations, 4, 0.1))
    assert found.deviation == pytest.approx(np.full((2, HOURS), 0.1), rel=0.05)
    assert abs(found.errors).max() < 0.01
