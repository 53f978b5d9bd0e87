"""Moves without a gap under real kubelets: not one request of a client fails."""

import pytest
from e2e.real_nodes.programs import SECONDS, result_of

MOVES = 20
OTHERS = 4
"""One with a restart of the kubelet, one with new binders, and two because of load."""

pytestmark = [pytest.mark.weekly, pytest.mark.timeout(SECONDS + 60), pytest.mark.usefixtures("testbed_binaries")]


def test_no_request_fails_while_a_single_replica_moves_twenty_times() -> None:
    """Takes about twenty minutes. Two clients send a request every 20 ms, one on each node."""
    result = result_of("moves", str(MOVES))

    assert result["failed"] == 0, result
    assert result["moves"] == MOVES + OTHERS
    assert result["fewest_endpoints"] == 1
    assert result["left_over"] == []
    assert result["requests"] > 50 * result["seconds_of_proposed_moves"], "of the two clients together"
    assert result["failed_without_grace"] > 0, "the clients notice when the pod is deleted at once"
