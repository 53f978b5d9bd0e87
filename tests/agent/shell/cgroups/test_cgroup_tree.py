"""The agent on every layout of cgroups, with the kernel's rules."""

import resource
from pathlib import Path
from typing import Any

import msgspec
import pytest
from agent.agents import GIB, AgentWorld, batch_pod, uid
from agent.fake_cgroups import FakeCgroups

from equipoise.agent.decisions.band_pods import band_pod
from equipoise.agent.decisions.evictions import CpuEviction
from equipoise.agent.decisions.suppression import CpuSuppression
from equipoise.agent.settings import AgentSettings
from equipoise.contracts.kubernetes.objects.pod import Pod

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


def cpuset_world(directory: Path, *pods: int, policy: Any = "cpuset") -> tuple[FakeCgroups, AgentWorld]:
    """Cgroup v2, 4 CPUs, best-effort pods with processes, and an agent whose only policy is a set of CPUs."""
    cgroups = FakeCgroups(directory, 2, "0-7")
    for group in ("kubepods", "kubepods/besteffort"):
        cgroups.make(group)
        cgroups.put(group, "cgroup.events", "populated 1")
    cgroups.put("kubepods", "cpuset.cpus", "0-3")
    for number in pods:
        cgroups.make(f"kubepods/besteffort/pod{uid(number)}")
        cgroups.populate(f"kubepods/besteffort/pod{uid(number)}")
    rules = CpuSuppression(policy=policy, cpu_threshold=40)
    agent = AgentWorld(directory, "", AgentSettings(suppression=rules))
    agent.agent._files = agent.agent._meter._files = agent.agent._writer._files = cgroups
    agent.know([batch_pod(number) for number in pods])
    return cgroups, agent


def test_a_set_of_cpus_of_v2_is_lifted_while_pods_run(tmp_path: Path) -> None:
    """The kernel refuses an empty set for a group with processes: it gets the CPUs of all pods."""
    cgroups, agent = cpuset_world(tmp_path, 1)
    cgroups.put("kubepods/besteffort", "cpuset.cpus", "2-3")
    agent.agent.restore()
    lifted = cgroups.get("kubepods/besteffort", "cpuset.cpus")
    cgroups.put("kubepods", "cpuset.cpus", "0-7")
    agent.agent.restore()

    assert (lifted, cgroups.get("kubepods/besteffort", "cpuset.cpus")) == ("0-3", "0-7")
    assert agent.health.report().problems == []


@pytest.mark.parametrize("policy", ["quota", "off"])
def test_a_set_of_cpus_of_an_agent_that_was_killed_is_lifted_by_one_with_another_policy(
    tmp_path: Path, policy: Any
) -> None:
    """Otherwise all best-effort pods would keep it until the node restarts."""
    cgroups, agent = cpuset_world(tmp_path, 1, policy=policy)
    cgroups.put("kubepods/besteffort", "cpuset.cpus", "2-3")
    agent.round(1.0)

    assert cgroups.get("kubepods/besteffort", "cpuset.cpus") == "0-3"


@pytest.mark.parametrize("policy", ["cpuset", "off"])
def test_a_quota_of_an_agent_that_was_killed_is_lifted_by_one_with_another_policy(tmp_path: Path, policy: Any) -> None:
    """Otherwise all best-effort pods would keep it until the node restarts."""
    cgroups, agent = cpuset_world(tmp_path, 1, policy=policy)
    cgroups.put("kubepods/besteffort", "cpu.max", "20000 100000")
    agent.round(1.0)

    assert cgroups.get("kubepods/besteffort", "cpu.max").startswith("max ")


def test_a_set_of_cpus_of_v2_is_removed_when_no_pod_runs(tmp_path: Path) -> None:
    """The set is as the kubelet had it."""
    cgroups, agent = cpuset_world(tmp_path)
    cgroups.put("kubepods/besteffort", "cgroup.events", "populated 0")
    cgroups.put("kubepods/besteffort", "cpuset.cpus", "2-3")
    agent.agent.restore()

    assert cgroups.get("kubepods/besteffort", "cpuset.cpus") == ""
    assert agent.health.report().problems == []


def test_a_group_without_a_set_of_cpus_gets_none(tmp_path: Path) -> None:
    """Nothing is to be lifted."""
    cgroups, agent = cpuset_world(tmp_path, 1)
    agent.round()
    agent.agent.restore()

    assert cgroups.get("kubepods/besteffort", "cpuset.cpus") == ""


@pytest.mark.parametrize(
    ("shared", "limited", "used"),
    [("0,2-3", "2-3", "2-3"), ("0,3", "0-3", "0,3"), ("0", "0-3", "0")],
    ids=["one exclusive CPU", "two exclusive CPUs", "three exclusive CPUs"],
)
def test_a_set_of_cpus_never_contains_those_of_a_pod_with_exclusive_cpus(
    tmp_path: Path, shared: str, limited: str, used: str
) -> None:
    """The kernel gives a container the CPUs of the group above it if its own set has none of them."""
    cgroups, agent = cpuset_world(tmp_path, 1)
    cgroups.put("kubepods/besteffort", "cpuset.cpus", "2-3")
    container = f"kubepods/besteffort/pod{uid(1)}/{CONTAINER}"
    cgroups.make(container)
    cgroups.put(container, "cpuset.cpus", shared)
    agent.round()

    assert cgroups.get("kubepods/besteffort", "cpuset.cpus") == limited
    assert cgroups.read(str(cgroups.path(container, "cpuset.cpus").with_name("cpuset.cpus.effective"))) == used
    assert cgroups.get(container, "cpuset.cpus") == shared, "of the kubelet"


def test_a_node_with_too_few_cpus_for_a_set_is_a_problem(tmp_path: Path) -> None:
    """Two CPUs are the least that best-effort pods get: on a node with two nothing would ever be limited."""
    cgroups, agent = cpuset_world(tmp_path, 1)
    agent.round()
    before = agent.health.report().problems
    cgroups.put("kubepods", "cpuset.cpus", "0-1")
    agent.round()

    [problem] = agent.health.report().problems
    assert before == []
    assert "agent.suppression.policy: quota" in problem


# What a pod says about itself

AMOUNTS = {"kubernetes.io/batch-cpu": "1", "kubernetes.io/batch-memory": "4096"}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("name", "number"), [("victim", 2), ("system", 3), ("static", 0)])
def test_a_forged_pod_writes_nothing_for_others_and_evicts_nobody(
    tmp_path: Path, version: int, name: str, number: int
) -> None:
    """Whatever its annotations, owners and amounts are: its own uid has no group on this node."""
    cgroups = FakeCgroups(tmp_path, version)
    key = STATIC if name == "static" else uid(number)
    groups = [f"kubepods/besteffort/pod{each}" for each in (uid(1), key)]
    for group in groups:
        cgroups.make(group)
    eviction = CpuEviction(satisfaction_lower=60, window=1)
    agent = AgentWorld(tmp_path, "", AgentSettings(evict=True, cpu_eviction=eviction))
    agent.agent._files = agent.agent._meter._files = agent.agent._writer._files = cgroups
    before = {path: path.read_text() for path in tmp_path.rglob("*") if path.is_file() and key in str(path)}
    for controller in (True, False):
        forged = {
            "metadata": {
                "name": "forged",
                "namespace": "tenant",
                "uid": uid(7),
                "annotations": {"kubernetes.io/config.mirror": key, "kubernetes.io/config.source": "file"},
                "ownerReferences": [{"kind": "Node", "name": "alpha", "uid": uid(8), "controller": controller}],
            },
            "spec": {
                "priority": 5_999,
                "nodeName": "alpha",
                "containers": [{"resources": {"requests": AMOUNTS, "limits": AMOUNTS}}],
            },
            "status": {"phase": "Pending", "qosClass": "BestEffort"},
        }
        found = band_pod(msgspec.convert(forged, Pod))
        agent.know([batch_pod(1), *([found] if found is not None else [])])
        agent.round()

    after = {path: path.read_text() for path in tmp_path.rglob("*") if path.is_file() and key in str(path)}
    assert after == before
    assert agent.api.evicted == []
    assert agent.metrics.get("equipoise_agent_cpu_requested_cores") == 1.0


def test_a_pod_that_does_not_end_counts_as_released_for_two_minutes(tmp_path: Path) -> None:
    """Its grace period may be a year, and the node runs out of memory before."""
    root, proc = tmp_path / "cgroup", tmp_path / "proc"
    root.mkdir()
    proc.mkdir()
    (proc / "stat").write_text("cpu 1 0 0 1 0 0 0 0 0 0\n")
    (proc / "meminfo").write_text("MemTotal: 104857600 kB\nMemAvailable: 5242880 kB\n")
    cgroups = FakeCgroups(root, 2)
    for number, gib in ((1, 40), (2, 40)):
        cgroups.make(f"kubepods/besteffort/pod{uid(number)}")
        cgroups.put(f"kubepods/besteffort/pod{uid(number)}", "memory.stat", f"anon {gib * 2**30}")
    agent = AgentWorld(root, "", AgentSettings(evict=True), proc=str(proc))
    agent.know([batch_pod(1, terminating=True), batch_pod(2)])
    agent.round()
    agent.round(119)
    before = list(agent.api.evicted)
    agent.round(2)

    assert (before, agent.api.evicted) == ([], ["batch-2"])


@pytest.mark.parametrize(
    ("busy", "idle", "cores"),
    [
        (100, 300, 1.0),
        (185, 0, 4.0),  # the rest of the time, the hypervisor ran something else
        (100, 100, 2.0),
        (0, 400, 0.0),
    ],
)
def test_time_that_a_hypervisor_takes_without_reporting_it_is_not_idle(
    tmp_path: Path, busy: int, idle: int, cores: float
) -> None:
    """The node has four CPUs, and a tick is a hundredth of a second."""
    root, proc, system = tmp_path / "cgroup", tmp_path / "proc", tmp_path / "sys"
    for folder in (root, proc, system / "devices" / "system" / "cpu"):
        folder.mkdir(parents=True)
    (system / "devices" / "system" / "cpu" / "online").write_text("0-3\n")
    FakeCgroups(root, 2).make("kubepods")
    agent = AgentWorld(root, "", proc=str(proc), system=str(system))
    for rounds in (0, 1):
        (proc / "stat").write_text(f"cpu {rounds * busy} 0 0 {rounds * idle} 0 0 0 0 0 0\n")
        agent.round()

    assert agent.metrics.get("equipoise_agent_cpu_usage_cores", group="node") == pytest.approx(cores)


def test_groups_that_cannot_be_listed_are_unknown_and_a_problem(tmp_path: Path) -> None:
    """SELinux refuses to list them. Here no further file can be opened, which root notices, too."""
    cgroups = FakeCgroups(tmp_path, 2)
    cgroups.make(layout("systemd")[uid(1)])
    agent = AgentWorld(tmp_path, "")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        assert agent.agent._tree.groups() is None
        agent.round()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    [problem] = agent.health.report().problems
    assert f"{tmp_path}/kubepods.slice: Too many open files" in problem
    assert "seLinuxOptions" in problem

    agent.round()
    assert agent.agent._tree.groups() is not None
    assert not any("cannot be listed" in problem for problem in agent.health.report().problems)
