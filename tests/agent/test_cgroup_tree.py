"""The agent on every layout of cgroups, with the kernel's rules."""

from pathlib import Path

import pytest
from agent.agents import GIB, AgentWorld, batch_pod, uid
from agent.fake_cgroups import FakeCgroups

STATIC = "0123456789abcdef0123456789abcdef"
CONTAINER = "ab" * 32


def layout(driver: str) -> dict[str, str]:
    """Groups of pods by uid, as the kubelet names them."""
    if driver == "systemd":
        names = [uid(number).replace("-", "_") for number in range(3)]
        return {
            uid(0): f"kubepods.slice/kubepods-pod{names[0]}.slice",
            uid(1): f"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{names[1]}.slice",
            uid(2): f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{names[2]}.slice",
            STATIC: f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{STATIC}.slice",
        }
    top = "kubelet/kubepods" if driver == "kind" else "kubepods"
    return {
        uid(0): f"{top}/pod{uid(0)}",
        uid(1): f"{top}/besteffort/pod{uid(1)}",
        uid(2): f"{top}/burstable/pod{uid(2)}",
        STATIC: f"{top}/burstable/pod{STATIC}",
    }


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("driver", ["cgroupfs", "systemd", "kind"])
def test_pods_are_found_and_limited(tmp_path: Path, version: int, driver: str) -> None:
    """Of v1 and v2, both drivers and kind: the batch pod gets its values, others keep theirs, and all is restored."""
    cgroups = FakeCgroups(tmp_path, version)
    groups = layout(driver)
    for group in groups.values():
        cgroups.make(group)
    cgroups.make(f"{groups[uid(2)]}/crio-{CONTAINER}.scope/container")
    agent = AgentWorld(tmp_path, "")
    agent.agent._files = agent.agent._meter._files = agent.agent._writer._files = cgroups
    agent.know([batch_pod(1, cpu_limit=2.0, cpu_request=1.0), batch_pod(2)])
    agent.round()

    found = agent.agent._tree.groups()
    assert found is not None
    assert {key: pod.path for key, pod in found.pods.items()} == groups
    assert len(agent.agent._tree.containers("cpu", groups[uid(2)])) == 2
    files = {
        1: {"cpu.cfs_quota_us": "200000", "cpu.shares": "1024", "memory.soft_limit_in_bytes": str(int(GIB))},
        2: {"cpu.max": "200000 100000", "cpu.weight": "39", "memory.high": str(int(GIB))},
    }[version]
    assert {name: cgroups.get(groups[uid(1)], name) for name in files} == files
    quota = "cpu.cfs_quota_us" if version == 1 else "cpu.max"
    assert cgroups.get(groups[uid(2)], quota).split()[0] in ("-1", "max"), "it is no best-effort pod"
    agent.agent.restore()
    assert cgroups.get(groups[uid(1)], quota).split()[0] in ("-1", "max")
    weight = ("cpu.shares", "2") if version == 1 else ("cpu.weight", "1")
    assert cgroups.get(groups[uid(1)], weight[0]) == weight[1]


def test_a_root_without_pods_is_a_problem_that_names_the_setting(tmp_path: Path) -> None:
    """The mount is missing, or the kubelet has another --cgroup-root."""
    FakeCgroups(tmp_path, 2)
    agent = AgentWorld(tmp_path, "")
    agent.round()

    [problem] = agent.health.report().problems
    assert "agent.cgroupRoot" in problem
    assert "agent.cgroupParent" in problem


def test_unknown_pods_keep_what_is_there(tmp_path: Path) -> None:
    """At the start, until the API server responds."""
    cgroups = FakeCgroups(tmp_path, 2)
    group = layout("cgroupfs")[uid(1)]
    cgroups.make(group)
    cgroups.put(group, "cpu.max", "30000 100000")
    agent = AgentWorld(tmp_path, "")
    agent.round()

    assert cgroups.get(group, "cpu.max") == "30000 100000"
    assert agent.health.report().waiting_for == ["pods of the node", "first round"]
