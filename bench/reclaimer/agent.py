"""The agent with real cgroups of this machine (root, cgroup v1): its cost, and what it does to latency and batch work.

The node of the second and third figure is one CPU: a latency-sensitive loop computes 1 ms every 5 ms (20 %), whether or
not it is late, beside two endless batch processes.
"""

import asyncio
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from bench.memory import resident_mb
from bench.output import progress, report
from equipoise.agent.decisions.suppression import CpuSuppression
from equipoise.agent.settings import AgentSettings
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.objects import namespace, node

sys.path.insert(0, "tests")
from agent.agent_process import AgentProcess
from agent.agents import AgentWorld, batch_pod, uid
from agent.real_cgroups import ROOT, RealCgroups, real_cgroups
from agent.test_real_cluster import ACCESS, ACCOUNT, JOBS

PODS = 110
COST_SECONDS = 20.0
ROUNDS = 7
SECONDS = 3.0
SURGES = 4

SENSITIVE = f"kubepods/burstable/pod{uid(9)}"
BATCH = [f"kubepods/besteffort/pod{uid(number)}" for number in (1, 2)]

LOOP = """
import sys, time
from pathlib import Path
work, period, seconds, file = float(sys.argv[1]), 0.005, float(sys.argv[2]), sys.argv[3]
start = following = time.monotonic()
late = []
while following < start + seconds:
    time.sleep(max(0.0, following - time.monotonic()))
    done = time.thread_time() + work
    while time.thread_time() < done:
        pass
    late.append((time.monotonic() - following) * 1000)
    following += period
late.sort()
Path(file).write_text(str(late[int(len(late) * 0.99)]))
"""


async def cost() -> None:
    """Measures the cost of the program, with an API server: 88 latency-sensitive and 22 batch pods."""
    with real_cgroups() as real, tempfile.TemporaryDirectory() as directory:
        async with Cluster() as cluster:
            await cluster.add_nodes([node("alpha")])
            jobs: dict[str, Any] = {**JOBS, "spec": {**JOBS["spec"], "replicas": PODS // 5}}
            await cluster.apply([namespace("jobs"), *ACCESS, jobs])
            pods = await cluster.wait(
                "/api/v1/namespaces/jobs/pods",
                lambda found: len(found["items"]) == PODS // 5,
                what="all pods are there",
            )
            for pod in pods["items"]:
                real.make(f"kubepods/besteffort/pod{pod['metadata']['uid']}/{'ab' * 32}")
            for number in range(PODS - PODS // 5):
                real.make(f"kubepods/burstable/pod{uid(number)}/{'ab' * 32}")
            token = await cluster.service_account_token("jobs", ACCOUNT)
            agent = AgentProcess(cluster, "alpha", real.top, token, Path(directory))
            with agent.running(period=1.0):
                while not agent.ready():  # noqa: ASYNC110  of another process
                    await asyncio.sleep(0.1)
                await asyncio.sleep(5)
                assert agent.process is not None
                process = psutil.Process(agent.process.pid)
                before = process.cpu_times()
                await asyncio.sleep(COST_SECONDS)
                after = process.cpu_times()
                used = (after.user + after.system - before.user - before.system) / COST_SECONDS
                report("agent_cpu", used * 100, "% of a core", target=("<=", 1), pods=PODS)
                report("agent_memory", resident_mb(agent.process.pid), "MB", target=("<=", 25), pods=PODS)


@contextmanager
def running(agent: AgentWorld) -> Iterator[None]:
    """Rounds each second, in a thread."""
    stop = threading.Event()

    def rounds() -> None:
        while not stop.wait(1.0):
            agent.now = time.monotonic()
            agent.agent.round(agent.now)

    thread = threading.Thread(target=rounds)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        agent.agent.restore()


def one_cpu(real: RealCgroups, directory: Path) -> Path:
    """The groups of a node with one CPU. Returns what stands for /sys."""
    for group in (SENSITIVE, *BATCH):
        real.make(group)
    for group in (SENSITIVE, *BATCH, "kubepods/besteffort", "kubepods/burstable", "kubepods"):
        real.put(group, "cpuset.cpus", "1")
    for group in ("kubepods/besteffort", *BATCH):
        real.put(group, "cpu.shares", "2")
    online = directory / "devices" / "system" / "cpu"
    online.mkdir(parents=True)
    (online / "online").write_text("1")
    return directory


def batch_seconds(real: RealCgroups) -> float:
    return int(real.get("kubepods/besteffort", "cpuacct.usage")) / 1e9


def loop(real: RealCgroups, directory: Path, work: float = 0.001, seconds: float = SECONDS) -> tuple[float, float]:
    """The p99 of the loop in ms, and the cores that batch pods used beside it."""
    file = directory / "p99"
    before, at = batch_seconds(real), time.monotonic()
    process = real.run(SENSITIVE, f"import sys; sys.argv = ['', '{work}', '{seconds}', '{file}']\n{LOOP}")
    process.wait()
    return float(file.read_text()), (batch_seconds(real) - before) / (time.monotonic() - at)


def latency() -> None:
    """Interleaved rounds: alone, beside batch pods with the kubelet's weights, and with the agent."""
    found: dict[str, list[tuple[float, float]]] = {"alone": [], "kubelet": [], "agent": []}
    with real_cgroups() as real, tempfile.TemporaryDirectory() as name:
        system = one_cpu(real, Path(name) / "sys")
        for number in range(ROUNDS):
            found["alone"].append(loop(real, Path(name)))
            burners = [real.run(group) for group in BATCH]
            found["kubelet"].append(loop(real, Path(name)))
            agent = AgentWorld(ROOT, f"{real.top}/kubepods", system=str(system))
            agent.know([batch_pod(number, cpu_limit=None) for number in (1, 2)])
            with running(agent):
                time.sleep(1.5)
                found["agent"].append(loop(real, Path(name)))
            for burner in burners:
                real.stop(burner)
            progress(f"round {number + 1} of {ROUNDS}: {[(key, values[-1]) for key, values in found.items()]}")
    p99 = {key: statistics.median(value for value, _ in values) for key, values in found.items()}
    batch = {key: statistics.median(cores for _, cores in values) for key, values in found.items()}
    report(
        "agent_p99", p99["agent"], "ms", target=("<=", 1.15), baseline=p99["alone"], kubelet=round(p99["kubelet"], 2)
    )
    report("agent_batch", batch["agent"], "cores", target=(">=", 0.95), baseline=batch["kubelet"])


def surge() -> None:
    """Measures how long after a surge of the loop, from 20 % to 60 %, batch pods have what is left below 65 %."""
    reactions = []
    with real_cgroups() as real, tempfile.TemporaryDirectory() as name:
        system = one_cpu(real, Path(name) / "sys")
        burners = [real.run(group) for group in BATCH]
        for _ in range(SURGES):
            rules = CpuSuppression(cpu_threshold=65, pressure_threshold=None)
            agent = AgentWorld(ROOT, f"{real.top}/kubepods", AgentSettings(suppression=rules), system=str(system))
            agent.know([batch_pod(number, cpu_limit=None) for number in (1, 2)])
            with running(agent):
                loop(real, Path(name), 0.001, 6)
                start = time.monotonic()
                thread = threading.Thread(target=loop, args=(real, Path(name), 0.003, 5))
                thread.start()
                while not 0 < int(real.get("kubepods/besteffort", "cpu.cfs_quota_us")) <= 15_000:
                    if time.monotonic() > start + 5:
                        break
                    time.sleep(0.01)
                reactions.append(time.monotonic() - start)
                thread.join()
        for burner in burners:
            real.stop(burner)
    report("agent_reaction", max(reactions), "s", target=("<=", 2), median=round(statistics.median(reactions), 2))


def main() -> None:
    asyncio.run(cost())
    latency()
    surge()


if __name__ == "__main__":
    main()
