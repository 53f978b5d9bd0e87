"""The agent with real cgroups of this machine and real processes in them."""

import os
import time
from collections.abc import Iterator

import pytest
from agent.agents import GIB, AgentWorld, batch_pod, uid
from agent.real_cgroups import ROOT, RealCgroups, real_cgroups

from equipoise.agent.decisions.suppression import CpuSuppression
from equipoise.agent.settings import AgentSettings

POD = f"kubepods/besteffort/pod{uid(1)}"
CONTAINER = f"{POD}/{'ab' * 32}"
SENSITIVE = f"kubepods/burstable/pod{uid(9)}"


@pytest.fixture
def real() -> Iterator[RealCgroups]:
    with real_cgroups() as cgroups:
        for group in (CONTAINER, SENSITIVE):
            cgroups.make(group)
        cgroups.put("kubepods/besteffort", "cpu.shares", "2")
        yield cgroups


def world(real: RealCgroups, settings: AgentSettings | None = None) -> AgentWorld:
    return AgentWorld(ROOT, f"{real.top}/kubepods", settings)


def usage(real: RealCgroups, group: str) -> float:
    """CPU seconds of a group."""
    return int(real.get(group, "cpuacct.usage")) / 1e9


def throttled(real: RealCgroups, group: str) -> int:
    """Periods in which the quota of a group has stopped its processes."""
    return int(dict(line.split() for line in real.get(group, "cpu.stat").splitlines())["nr_throttled"])


def until_used(real: RealCgroups, group: str, seconds: float) -> None:
    """Wait until a group has used this many CPU seconds: on a busy machine that may take longer."""
    enough = usage(real, group) + seconds
    while usage(real, group) < enough:
        time.sleep(0.05)


def test_a_quota_holds_a_burner_and_the_end_frees_it(real: RealCgroups) -> None:
    """A pod with a limit of 0.2 cores uses no more; without the agent nothing stops it."""
    real.put("", "cpu.shares", "262144")  # else a busy machine leaves it less than its limit
    agent = world(real)
    agent.know([batch_pod(1, cpu_limit=0.2)])
    agent.round()
    real.run(CONTAINER)
    before, at = usage(real, POD), time.monotonic()
    until_used(real, POD, 0.3)
    held = (usage(real, POD) - before) / (time.monotonic() - at)
    stopped = throttled(real, POD)
    agent.agent.restore()
    freed = throttled(real, POD)
    until_used(real, POD, 0.3)

    assert held < 0.25
    assert stopped > 0
    assert throttled(real, POD) == freed
    assert real.get(POD, "cpu.cfs_quota_us") == "-1"


def test_the_values_of_a_pod_are_written_and_restored(real: RealCgroups) -> None:
    """Quota, shares and soft limit; at the end those of the kubelet."""
    names = ("cpu.cfs_quota_us", "cpu.shares", "memory.soft_limit_in_bytes")
    agent = world(real)
    agent.know([batch_pod(1, cpu_limit=1.5, cpu_request=0.5)])
    agent.round()
    written = [real.get(POD, name) for name in names]
    agent.agent.restore()
    restored = [real.get(POD, name) for name in names]

    assert written == ["150000", "512", str(int(GIB))]
    assert restored == ["-1", "2", str(2**63 - 4096)]


def test_a_value_that_another_program_changes_is_written_again(real: RealCgroups) -> None:
    """As systemd does at each update by the kubelet."""
    agent = world(real)
    agent.know([batch_pod(1)])
    agent.round()
    real.put(POD, "cpu.cfs_quota_us", "-1")
    agent.round()

    assert real.get(POD, "cpu.cfs_quota_us") == "100000"
    assert agent.metrics.get("equipoise_agent_values_reset_total", file="cpu.cfs_quota_us") == 1


def test_a_pod_that_ends_while_the_agent_runs_is_no_problem(real: RealCgroups) -> None:
    """Its files are open; then its group is gone."""
    agent = world(real)
    agent.know([batch_pod(1)])
    agent.round()
    opened = set(agent.agent._files._open)
    real.remove(POD)
    agent.round()

    assert agent.health.report().problems == []
    assert [path for path in opened if uid(1) in path]
    assert not [path for path in agent.agent._files._open if uid(1) in path]


def test_a_group_that_is_created_again_gets_its_values_again(real: RealCgroups) -> None:
    """The files of the former one are still open, and cannot be read."""
    agent = world(real)
    agent.know([batch_pod(1)])
    agent.round()
    real.remove(POD)
    real.make(POD)
    agent.round()
    agent.round()

    assert real.get(POD, "cpu.cfs_quota_us") == "100000"


def test_cgroups_that_cannot_be_written_are_a_problem_that_ends(real: RealCgroups) -> None:
    """On v1 the kernel refuses a quota above that of the parent."""
    agent = world(real, AgentSettings(suppression=CpuSuppression(policy="off")))
    agent.know([batch_pod(1)])
    real.put("kubepods", "cpu.cfs_quota_us", "50000")
    agent.round()
    problems = agent.health.report().problems
    real.put("kubepods", "cpu.cfs_quota_us", "-1")
    agent.round()

    assert len(problems) == 1
    assert "Invalid argument when '100000' was written" in problems[0]
    assert agent.health.report().problems == []


def burning(real: RealCgroups, agent: AgentWorld, rounds: int, wait: float = 0.5) -> None:
    """Rounds in real time."""
    for _ in range(rounds):
        time.sleep(wait)
        agent.now = time.monotonic()
        agent.agent.round(agent.now)


def test_the_threshold_limits_all_best_effort_pods_and_a_restart_goes_on(real: RealCgroups) -> None:
    """Parents shrink after their children. A new agent finds the limit and does not let it jump."""
    settings = AgentSettings(suppression=CpuSuppression(cpu_threshold=30, pressure_threshold=None))
    agent = world(real, settings)
    agent.know([batch_pod(1, cpu_limit=2)])
    for _ in range(os.cpu_count() or 1):
        real.run(CONTAINER)
    burning(real, agent, 3)
    first = int(real.get("kubepods/besteffort", "cpu.cfs_quota_us"))
    again = world(real, settings)
    again.know([batch_pod(1, cpu_limit=2)])
    burning(real, again, 1)
    second = int(real.get("kubepods/besteffort", "cpu.cfs_quota_us"))

    assert 0 < first <= 0.3 * (os.cpu_count() or 1) * 100_000
    assert second == first
    assert "problem" not in agent.log.getvalue() + again.log.getvalue()
    again.agent.restore()
    assert real.get("kubepods/besteffort", "cpu.cfs_quota_us") == "-1"
    assert real.get(POD, "cpu.cfs_quota_us") == "-1"


def test_a_set_of_cpus_shrinks_and_grows_with_all_groups_below(real: RealCgroups) -> None:
    """On v1 each group has its own set: the writer changes them in the order that the kernel demands."""
    if (os.cpu_count() or 1) < 2:
        pytest.skip("a set of CPUs needs two of them")
    agent = world(real)
    agent.know([batch_pod(1)])
    agent.round()
    groups = agent.agent._tree.groups()
    assert groups is not None
    agent.agent._writer.write_cpus(groups, frozenset({1}))
    shrunk = [real.get(group, "cpuset.cpus") for group in ("kubepods/besteffort", POD, CONTAINER)]
    agent.agent._writer.write_cpus(groups, frozenset({0}))
    other = [real.get(group, "cpuset.cpus") for group in ("kubepods/besteffort", POD, CONTAINER)]
    agent.agent.restore()
    restored = {real.get(group, "cpuset.cpus") for group in ("kubepods/besteffort", POD, CONTAINER)}

    assert (shrunk, other) == (["1"] * 3, ["0"] * 3)
    assert restored == {real.get("kubepods", "cpuset.cpus")}
    assert not any(result == "refused" for _, result in agent.agent._writer.results)


def test_pressure_of_a_latency_sensitive_pod_halves_batch_work(real: RealCgroups) -> None:
    """With equal weights it waits for half of the time; a pod that its own quota stops does not count."""
    if not (ROOT / "unified" / real.top / SENSITIVE / "cpu.pressure").exists():
        pytest.skip("this kernel reports no pressure by group")
    agent = world(real)
    agent.know([batch_pod(1, cpu_limit=None)])
    real.put("kubepods/besteffort", "cpu.shares", "1024")
    cpus = os.cpu_count() or 1
    for _ in range(cpus):
        real.run(CONTAINER)
        real.run(SENSITIVE)
    burning(real, agent, 3)

    assert agent.metrics.get("equipoise_agent_suppressed_seconds_total", reason="pressure")
    assert 0 < int(real.get("kubepods/besteffort", "cpu.cfs_quota_us")) < cpus * 100_000
