"""The agent under other kernels than that of the machine, beside a real kubelet."""

import pytest
from e2e.real_nodes.programs import SECONDS, result_of
from e2e.real_nodes.virtual_node import V1, V2

from equipoise.testbed.real_nodes.requirements import VIRTUAL_MACHINE

pytestmark = [pytest.mark.weekly, pytest.mark.timeout(2 * SECONDS + 60), pytest.mark.usefixtures("testbed_binaries")]


def test_the_agent_limits_batch_pods_on_cgroup_v2_and_leaves_what_the_kubelet_has_set() -> None:
    """Takes eight minutes, and longer beside other work: a virtual machine boots twice, and is twenty times slower."""
    result = result_of("agent.on_v2", required=VIRTUAL_MACHINE, seconds=2 * SECONDS)
    systemd, static = result["systemd"], result["static"]

    assert "10.79.0.1" in result["resolved"].split(), "DNS"
    assert tuple(systemd["before"]) == tuple(static["before"]) == V2.of_kubelet
    assert systemd["problems"] == static["problems"] == []
    assert systemd["killed"] == {"limits": [*V2.of_agent], "again": [*V2.of_agent]}
    assert systemd["pressure"]["ratio"] > 0.1
    assert systemd["pressure"]["suppressed"] > 0
    assert systemd["cpuset"] == "2-3"
    assert systemd["restored"] == {"pod": [*V2.of_kubelet], "quota": V2.no_quota, "cpus": "0-3"}
    assert static["restored"] == {"pod": [*V2.of_kubelet], "quota": V2.no_quota, "cpus": "0-3"}
    assert static["restored_again"] == static["restored"]
    assert static["cpuset"]["exclusive"] == [["1"], ["2-3"]], "the CPUs that the kubelet gave to a pod alone"
    assert static["cpuset"]["best_effort"] == ["2-3", "0-3"]
    [problem] = static["cpuset"]["problems"]
    assert "agent.suppression.policy: quota" in problem, "two CPUs are left, the least of best-effort pods"
    for of_kubelet in ("exclusive_cpus", "shared_cpus", "memory_high_of_containers"):
        before, during, after = static[of_kubelet]
        assert before == during == after
    assert {"max"} != set(static["memory_high_of_containers"][0]), "MemoryQoS is on"


def test_the_agent_limits_batch_pods_on_cgroup_v1_with_the_systemd_driver_and_restores_all_of_it() -> None:
    """Takes seven minutes: a virtual machine boots, and computes twenty times slower than the machine."""
    result = result_of("agent.on_v1", required=VIRTUAL_MACHINE)

    assert result["group"] == "/sys/fs/cgroup/cpu/kubepods.slice", "the name is that of the systemd driver"
    assert tuple(result["before"]) == V1.of_kubelet
    assert result["problems"] == []
    assert result["killed"] == {"limits": [*V1.of_agent], "again": [*V1.of_agent]}
    assert result["pressure"]["ratio"] > 0.1, "systemd has a hierarchy of cgroup v2 of its own, which has pressure"
    assert result["pressure"]["suppressed"] > 0
    assert result["cpuset"] == "2-3"
    assert result["restored"] == {"pod": [*V1.of_kubelet], "quota": V1.no_quota, "cpus": "0-3"}


def test_the_agent_limits_batch_pods_where_selinux_is_enforced_and_names_the_label_that_it_needs() -> None:
    """Takes two minutes: a virtual machine boots, and computes twenty times slower than the machine."""
    result = result_of("agent.on_selinux", required=VIRTUAL_MACHINE)
    unlabelled = result["unlabelled"]

    assert result["enforced"] == "1"
    assert tuple(result["before"]) == V2.of_kubelet
    assert result["labelled"] == {"type": "spc_t", "problems": [], "denials": []}, "limits were awaited before"
    assert result["restored"] == {"pod": [*V2.of_kubelet], "quota": V2.no_quota, "cpus": "0-3"}
    assert unlabelled["type"] == "container_t"
    assert tuple(unlabelled["limits"]) == V2.of_kubelet
    [problem] = unlabelled["problems"]
    assert "kubepods.slice: Permission denied" in problem
    assert "seLinuxOptions.type: spc_t" in problem
    assert any("cgroup_t" in denial and "permissive=0" in denial for denial in unlabelled["denials"])
