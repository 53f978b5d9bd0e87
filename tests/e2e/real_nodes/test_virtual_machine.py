"""The agent under a kernel with cgroup v2, beside a real kubelet."""

import pytest
from e2e.real_nodes.agent_on_v2 import LIMITS, NO_LIMIT, OF_KUBELET
from e2e.real_nodes.programs import SECONDS, result_of

from equipoise.testbed.real_nodes.requirements import VIRTUAL_MACHINE

pytestmark = [pytest.mark.weekly, pytest.mark.timeout(2 * SECONDS + 60), pytest.mark.usefixtures("testbed_binaries")]


def test_the_agent_limits_batch_pods_on_cgroup_v2_and_leaves_what_the_kubelet_has_set() -> None:
    """Takes about half an hour: a virtual machine boots twice, and computes twenty times slower than the machine."""
    result = result_of("agent_on_v2", required=VIRTUAL_MACHINE, seconds=2 * SECONDS)
    systemd, static = result["systemd"], result["static"]

    assert "10.79.0.1" in result["resolved"].split(), "DNS"
    assert tuple(systemd["before"]) == tuple(static["before"]) == OF_KUBELET
    assert systemd["problems"] == static["problems"] == []
    assert systemd["killed"] == {"limits": list(LIMITS), "again": list(LIMITS)}
    assert systemd["pressure"]["ratio"] > 0.1
    assert systemd["pressure"]["suppressed"] > 0
    assert systemd["cpuset"] == "2-3"
    assert systemd["restored"] == {"pod": list(OF_KUBELET), "quota": NO_LIMIT, "cpus": "0-3"}
    assert static["restored"] == {"pod": list(OF_KUBELET), "quota": NO_LIMIT, "cpus": "0-3"}
    assert static["restored_again"] == static["restored"]
    assert static["cpuset"]["exclusive"] == [["1"], ["2-3"]], "the CPUs that the kubelet gave to a pod alone"
    assert static["cpuset"]["best_effort"] == ["2-3", "0-3"]
    [problem] = static["cpuset"]["problems"]
    assert "agent.suppression.policy: quota" in problem, "two CPUs are left, the least of best-effort pods"
    for of_kubelet in ("exclusive_cpus", "shared_cpus", "memory_high_of_containers"):
        before, during, after = static[of_kubelet]
        assert before == during == after
    assert {"max"} != set(static["memory_high_of_containers"][0]), "MemoryQoS is on"
