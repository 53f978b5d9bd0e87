"""The figures of batch work, from usage written by hand."""

import numpy as np
import pytest

from equipoise.cli.demo.colocation.figures import (
    ColocationResult,
    UsageByNode,
    colocation_result,
    sentences,
    usage_as_placed,
)
from equipoise.cli.demo.example import example_trace
from equipoise.cli.demo.manifests import DAEMON_SET

NAN = float("nan")
CORES = np.array([10.0, 20.0])


def result_of(
    high: list[list[float]], batch: list[list[float]], *, before: list[list[float]] | None = None
) -> ColocationResult:
    """Two nodes of 10 and 20 cores, half an hour between two times, a limit of 65 %."""
    usage = UsageByNode(high_priority=np.array(high), batch=np.array(batch))
    placed = np.zeros((2, len(high[0]))) if before is None else np.array(before)
    return colocation_result(usage, placed, cores=CORES, limit=65.0, step_hours=0.5, pods_finished=7, evictions=0)


def test_batch_work_beyond_what_other_pods_leave_is_suppressed() -> None:
    """5 of 6.5 cores are left 1.5: of two batch cores half a core is suppressed, for half an hour."""
    result = result_of([[5.0, 3.0], [4.0, 4.0]], [[2.0, 2.0], [1.0, 1.0]])

    assert result.core_hours == pytest.approx((6.0 - 0.5) / 2, abs=0.06)
    assert result.suppressed_share == pytest.approx(0.5 / 6.0, abs=1e-4)
    assert result.share_of_cores == pytest.approx(5.5 / 60.0, abs=1e-4)
    assert result.hours == 1.0


def test_all_batch_work_is_suppressed_where_other_pods_use_more_than_the_limit() -> None:
    result = result_of([[9.0], [0.0]], [[2.0], [0.0]])

    assert (result.core_hours, result.suppressed_share) == (0.0, 1.0)


def test_without_batch_pods_the_suppressed_share_is_unknown() -> None:
    """Neither 0 nor an error."""
    result = result_of([[5.0], [4.0]], [[0.0], [0.0]])

    assert (result.core_hours, result.share_of_cores, result.suppressed_share) == (0.0, 0.0, None)
    assert "suppressed: unknown, no batch pod ran" in sentences(result)


def test_hours_above_the_limit_are_those_of_all_pods() -> None:
    """Before without batch pods, after with them and without: 6 and 1 cores of 10 are more than 65 %."""
    result = result_of([[6.0, 6.0], [4.0, 14.0]], [[1.0, 0.0], [1.0, 0.0]], before=[[9.0, 7.0], [14.0, 4.0]])

    assert (result.node_hours_above_before, result.node_hours_above_after) == (1.5, 1.0)
    assert result.node_hours_above_without_batch == 0.5


def test_a_node_does_not_count_while_it_is_not_measured() -> None:
    """Neither its batch work nor its load nor its cores, before and after."""
    result = result_of([[NAN, 9.0], [4.0, 4.0]], [[NAN, 0.0], [2.0, 2.0]], before=[[9.0, 9.0], [4.0, 4.0]])

    assert (result.node_hours_above_before, result.node_hours_above_after) == (0.5, 0.5)
    assert result.share_of_cores == pytest.approx(4.0 / 50.0)
    assert result.measured_share == 0.75
    assert "note: 75% of the time of all nodes was measured" in sentences(result)[-1]


def test_the_usage_before_is_that_of_the_pods_on_each_node() -> None:
    """Of pods that were placed, in each step; other pods have no curve."""
    trace = example_trace()
    first, other = trace.workloads[0].name, trace.workloads[1].name
    [small, large] = [trace.nodes[0].name, trace.nodes[3].name]

    usage = usage_as_placed(trace, [(first, small), (first, small), (other, large), (DAEMON_SET, large), (first, "")])

    np.testing.assert_allclose(usage[0], 2 * trace.cpu_milli[0] / 1_000)
    np.testing.assert_allclose(usage[3], (trace.cpu_milli[1] + 100) / 1_000)
    assert not usage[1:3].any()


def test_what_is_not_measured_is_named_so() -> None:
    """Fake nodes suppress nothing."""
    [work, suppressed, above] = sentences(result_of([[5.0], [4.0]], [[2.0], [1.0]], before=[[9.0], [1.0]]))

    assert "1 core-hours in 0 hours of the trace" in work
    assert "7 batch pods finished, and 0 were evicted" in work
    assert "computed from measured usage, as fake nodes have no agent" in suppressed
    assert "0 before, computed for the placement by the stock scheduler" in above
