"""Predictions of peak usage, beside an oracle."""

import numpy as np
import pytest
from lab.traces import a_trace

from equipoise.lab.capacity.answers import CapacityAnswers
from equipoise.lab.capacity.batch_work import BatchCapacity, BatchRequest, BatchSimulation
from equipoise.lab.capacity.peak_predictors import PREDICTORS, PredictedPeak, n_sigma, sum_of_percentiles
from equipoise.lab.model.node_days import PodDays
from equipoise.lab.model.trace import Trace
from equipoise.lab.report.capacity_tables import capacity_rows

NIGHT_AND_DAY = (1_000.0,) * 48 + (4_000.0,) * 48


def answer(trace: Trace) -> BatchCapacity:
    simulation = BatchSimulation(trace, BatchRequest(thresholds=(0.65,)))
    for _ in simulation.advance():
        pass
    return simulation.result()


def peaks(trace: Trace) -> dict[str, PredictedPeak]:
    return {each.predictor: each for each in answer(trace).peaks}


def days(*, number: int, night: float, day: float) -> tuple[float, ...]:
    return ((night,) * 48 + (day,) * 48) * number


def test_n_sigma_is_the_mean_and_five_standard_deviations_of_two_hours() -> None:
    past = np.array([[9.0] * 8 + [1.0, 3.0] * 4])
    assert n_sigma(past) == pytest.approx(2.0 + 5.0 * np.sqrt(8.0 / 7.0))


def test_percentiles_are_summed_over_the_pods_of_a_node() -> None:
    usage = np.array([[1.0] * 96, [2.0] * 96])
    pods = PodDays(counts=np.array([[3.0, 1.0], [0.0, 2.0]]), usage=usage)
    assert sum_of_percentiles(pods, 96).tolist() == [5.0, 4.0]


def test_the_oracle_is_never_violated_and_offers_all_that_lasts() -> None:
    """8 cores, of which 5.2 may be used; 1 core is used at night, and 4 by day and in the 6 hours before."""
    trace = a_trace(nodes=1, curves=(days(number=6, night=1_000.0, day=4_000.0),), replicas=(1,), placed=(0,))
    found = peaks(trace)["oracle"]
    assert found.violated == 0.0
    lasting_hours, hours = 7, 24
    assert found.usable == pytest.approx((4.2 * lasting_hours + 1.2 * (hours - lasting_hours)) / 8.0 / hours, abs=1e-4)


def test_what_is_idle_now_is_violated_before_usage_rises() -> None:
    trace = a_trace(nodes=1, curves=(days(number=6, night=1_000.0, day=4_000.0),), replicas=(1,), placed=(0,))
    found = peaks(trace)
    assert found["now"].violated == pytest.approx(6 / 24, abs=0.05)
    assert found["last_day"].violated == 0.0


def test_at_the_same_share_of_violations_no_predictor_offers_more_than_what_is_asked_for() -> None:
    """A margin that is chosen in hindsight makes predictors comparable."""
    found = answer(a_trace(nodes=4, curves=(NIGHT_AND_DAY,), replicas=(4,), placed=range(4)))
    assert [each.predictor for each in found.peaks] == list(PREDICTORS)
    for each in found.peaks:
        strict, lax = each.usable_at
        assert strict <= lax + 1e-9
        assert 0.0 <= each.violated <= 1.0


def test_the_table_has_a_row_for_each_predictor() -> None:
    found = answer(a_trace(nodes=1, curves=(NIGHT_AND_DAY,), replicas=(1,), placed=(0,)))
    rows = capacity_rows(CapacityAnswers(batch=found))[-1]
    assert [row[0] for row in rows.rows] == list(PREDICTORS.values())
    assert rows.rows[0][-1] == "100"
