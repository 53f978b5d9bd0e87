"""A restart of a kubelet and the loss of a node: services come back, and nothing is evicted that should not be."""

import pytest
from e2e.real_nodes.programs import SECONDS, result_of

pytestmark = [pytest.mark.weekly, pytest.mark.timeout(SECONDS + 60), pytest.mark.usefixtures("testbed_binaries")]


def test_services_and_limits_come_back_after_a_kubelet_and_a_node(pytestconfig: pytest.Config) -> None:
    """With kubelets of the version in `--kubernetes`, from 1.34 on. Takes about fifteen minutes: a node is lost when it
    has not reported for 50 seconds."""
    result = result_of("restarts", pytestconfig.option.kubernetes)

    assert len(result["proxied"]) > 10
    assert all(result["proxied"].values()), result["proxied"]
    assert result["restarted_by_kubelet"] == {}
    assert result["evictions_while_a_node_is_lost"] == 0
    assert result["evictions_afterwards"] == 1, "the node is as hot as before"
