"""Which of utilization, pressure of the node and pressure of a pod predicts the latency of the pod that serves.

The node is a virtual machine with cgroup v2, whose kubelet and kernel measure the pressure of each pod. As
`python -m bench.pressure`, but with pods of a kubelet: a server answers requests beside neighbours of several kinds.
`python -m e2e.real_nodes.pod_pressure` with tests/ in PYTHONPATH, as root. Its last line is a JSON document.
"""

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from bench.pressure.client import connected, latencies
from bench.pressure.correlation import rank_correlation, ranks
from bench.pressure.neighbours import Kind, Neighbour, drawn_states
from bench.pressure.programs import SERVER
from deployment.base import ROOT
from e2e.real_nodes.installation import machine_load, note, print_result
from e2e.real_nodes.virtual_node import NAMESPACE, SHELL, STEP_SECONDS, VirtualNode, busybox

from equipoise.testbed import objects
from equipoise.testbed.api import Api
from equipoise.testbed.objects import Manifest
from equipoise.testbed.real_nodes.cluster import RealCluster, prepare
from equipoise.testbed.real_nodes.images import product_image
from equipoise.testbed.real_nodes.virtual_machine.systems import CGROUP_V2

PORT = 18_089
CORES = 2
"""Each state has at most twice as many burners: as many as the virtual machine has CPUs."""

STATES = 22
"""Each mix of neighbours twice."""

SEED = 1
RATE = 4.0
"""Requests per second. The virtual machine computes twenty times slower than the machine of the benchmark."""

WORK = 0.002
"""Seconds of CPU of a request. Receiving and answering it takes several times as long."""

STATE_SECONDS = 15.0
SETTLING = 3.0
DATA = "/var/lib/pressure"
FILE_MEBIBYTES = {"server": 64, "reader": 256}
DISK_LIMIT = "rbps=16777216 wbps=16777216 riops=400 wiops=400"
"""`io.max` of all pods together, as of a small volume in a cloud: the disk of the virtual machine is memory."""

RESOURCES = ("cpu", "memory", "io")
REQUESTS: dict[Kind, str] = {
    "polite": "", "equal": "125m", "greedy": "1000m", "throttled": "125m", "writer": "60m", "reader": "60m",
}  # fmt: skip
"""CPU requests of the pod of each kind. All processes of a kind run in one pod."""

SERVER_REQUEST = "250m"
LIMITS: dict[Kind, dict[str, str]] = {"throttled": {"cpu": "200m"}, "reader": {"memory": "48Mi"}}
"""A reader whose file is larger than its memory reads from the disk again and again."""

PAUSES = {0.3: "usleep 60000", 0.6: "usleep 20000", 1.0: ":"}
"""What a burner does after each part of its work."""

PROGRAMS: dict[str, str] = {
    "writer": f"while :; do dd if=/dev/zero of={DATA}/$1 bs=1M count=8 conv=fsync,notrunc; done",
    "reader": f"while :; do dd if={DATA}/reader of=/dev/null bs=1M; done",
}
BURNER = "while :; do i=0; while [ $i -lt 300 ]; do i=$((i+1)); done; {pause}; done"


class State(msgspec.Struct, frozen=True, kw_only=True):
    """One measured state of the node. All but the latencies are shares of time or cores."""

    neighbours: str
    p90: float
    p99: float
    utilization: float
    """0..1 of all CPUs."""

    waiting: dict[str, float]
    """The pressure of the node by resource."""

    server_cpu: float
    server_waiting: dict[str, float]
    """The pressure of the server's pod by resource."""


@dataclass(frozen=True, kw_only=True)
class NodeShell:
    """A shell in the virtual machine that stays open: to start one for each command would disturb the server."""

    process: asyncio.subprocess.Process

    async def run(self, script: str) -> str:
        """The output of a script."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{script}\necho end of the output\n".encode())
        lines = []
        while (line := (await self.process.stdout.readline()).decode()) != "end of the output\n":
            if not line:
                raise SystemExit("the shell in the virtual machine has ended")
            lines.append(line)
        return "".join(lines)


async def node_shell(node: VirtualNode) -> NodeShell:
    """The shell. Like process 1 of the node, it may write all cgroups."""
    command = (
        "exec",
        "--stdin",
        SHELL,
        "--",
        "chroot",
        "/host",
        "/usr/bin/nsenter",
        "--target=1",
        "--cgroup",
        "/bin/sh",
    )
    process = await asyncio.create_subprocess_exec(
        node.real.kubectl, "--namespace", NAMESPACE, *command,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    return NodeShell(process=process)


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """The server and the pods of its neighbours on the node."""

    shell: NodeShell
    address: str
    groups: Mapping[str, str]
    """The cgroup of each pod by its name."""

    async def measure(self, neighbours: Sequence[Neighbour]) -> State:
        """The state with exactly these neighbours."""
        await self.shell.run(" ".join(map(self._start, neighbours)) or ":")
        connection = await asyncio.to_thread(connected, PORT, STEP_SECONDS, address=self.address)
        await asyncio.to_thread(latencies, connection, RATE, SETTLING)
        before = await self._counters()
        seconds = sorted(await asyncio.to_thread(latencies, connection, RATE, STATE_SECONDS))
        after = await self._counters()
        await self.shell.run('[ -z "$neighbours" ] || kill -9 $neighbours; wait 2>/dev/null; neighbours=')
        connection.close()
        return state_of(neighbours, seconds, before, after)

    def _start(self, neighbour: Neighbour) -> str:
        """The command that starts one process in the container of its pod, and remembers it."""
        burner = BURNER.format(pause=PAUSES[neighbour.busy])
        program = PROGRAMS.get(neighbour.kind, burner)
        container = f"{self.groups[neighbour.kind]}/cri-containerd-*.scope/cgroup.procs"
        first = f"for file in {container}; do echo $$ > $file && break; done"
        script = f"{first}; {program}".replace("'", "'\\''")
        command = f"setsid busybox sh -c '{script}' {neighbour.name} {neighbour.name} >/dev/null 2>&1"
        return f'{command} & neighbours="$neighbours -$!";'

    async def _counters(self) -> dict[str, str]:
        group = self.groups["server"]
        files = [f"/proc/pressure/{name}" for name in RESOURCES]
        files += [f"{group}/{name}.pressure" for name in RESOURCES]
        output = await self.shell.run(
            f"grep -H ^some {' '.join(files)}; grep -H ^usage_usec {group}/cpu.stat; grep -H '^cpu ' /proc/stat; "
            "grep -H . /proc/uptime"
        )
        return {path: text for path, _, text in (line.partition(":") for line in output.splitlines())}


def state_of(
    neighbours: Sequence[Neighbour], seconds: Sequence[float], before: Mapping[str, str], after: Mapping[str, str]
) -> State:
    """The values between two readings. `seconds`: the latencies of all requests, the lowest first."""
    elapsed = _uptime(after) - _uptime(before)

    def waited(path: str) -> float:
        return min(1.0, (_total(after[path]) - _total(before[path])) / elapsed)

    groups = {path.rpartition("/")[0] for path in after if path.endswith("/cpu.stat")}
    [group] = groups
    used = [_times(counters["/proc/stat"]) for counters in (before, after)]
    busy, all_time = (after_value - value for value, after_value in zip(*used, strict=True))
    stat = f"{group}/cpu.stat"
    return State(
        neighbours=" ".join(f"{item.name}@{item.busy:g}" for item in neighbours) or "none",
        p90=seconds[math.ceil(0.9 * len(seconds)) - 1],
        p99=seconds[math.ceil(0.99 * len(seconds)) - 1],
        utilization=busy / all_time,
        waiting={name: waited(f"/proc/pressure/{name}") for name in RESOURCES},
        server_cpu=(int(after[stat].split()[1]) - int(before[stat].split()[1])) / 1e6 / elapsed,
        server_waiting={name: waited(f"{group}/{name}.pressure") for name in RESOURCES},
    )


def _uptime(counters: Mapping[str, str]) -> float:
    return float(counters["/proc/uptime"].split()[0])


def _total(text: str) -> float:
    return float(text.rpartition("total=")[2]) / 1e6


def _times(text: str) -> tuple[float, float]:
    """The busy time and all time of the line `cpu` of /proc/stat."""
    values = [float(value) for value in text.split()[1:9]]
    return sum(values) - values[3] - values[4], sum(values)


def correlations(states: Sequence[State], slow: Sequence[float]) -> dict[str, float]:
    """The rank correlation of each predictor with a latency of each state."""
    utilization = [state.utilization for state in states]
    pressure = [max(state.waiting["cpu"], state.waiting["io"]) for state in states]
    of_pod = [max(state.server_waiting["cpu"], state.server_waiting["io"]) for state in states]
    predictors = {
        "utilization of the node": utilization,
        "utilization of the pod": [state.server_cpu for state in states],
        "pressure of the node": pressure,
        "pressure of the node, CPU": [state.waiting["cpu"] for state in states],
        "pressure of the node, disks": [state.waiting["io"] for state in states],
        "utilization and pressure of the node": [
            a + b for a, b in zip(ranks(utilization), ranks(pressure), strict=True)
        ],
        "pressure of the pod": of_pod,
        "pressure of the pod, CPU": [state.server_waiting["cpu"] for state in states],
        "pressure of the pod, disks": [state.server_waiting["io"] for state in states],
        "utilization of the node and pressure of the pod": [
            a + b for a, b in zip(ranks(utilization), ranks(of_pod), strict=True)
        ],
    }
    return {name: round(rank_correlation(values, slow), 2) for name, values in predictors.items()}


async def start_experiment(node: VirtualNode) -> Experiment:
    """Creates the pods and files, and waits until the server listens."""
    shell = await node_shell(node)
    await shell.run(f"mkdir -p {DATA}")
    for name, size in FILE_MEBIBYTES.items():
        await shell.run(f"dd if=/dev/zero of={DATA}/{name} bs=1M count={size} conv=fsync 2>/dev/null")
    uids = {"server": await node.start_pod("server", server(), volumes=[{"name": "data", "hostPath": {"path": DATA}}])}
    for kind, request in REQUESTS.items():
        amounts = {"requests": {"cpu": request, "memory": "8Mi"}} if request else {}
        if kind in LIMITS:
            amounts["limits"] = LIMITS[kind]
        uids[kind] = await node.start_pod(kind, busybox(["sleep", "100000"], amounts))
    pod = await node.api.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods/server")
    groups = {}
    for name, uid in uids.items():
        words = uid.replace("-", "_")
        groups[name] = (await shell.run(f"find /sys/fs/cgroup/kubepods.slice -type d -name '*{words}.slice'")).strip()
    device = (await shell.run("lsblk --noheadings --nodeps --output MAJ:MIN /dev/vda")).strip()
    await shell.run(f"echo '{device} {DISK_LIMIT}' > /sys/fs/cgroup/kubepods.slice/io.max")
    return Experiment(shell=shell, address=pod["status"]["podIP"], groups=groups)


def server() -> Manifest:
    """The container of the server."""
    return {
        "name": "main",
        "image": product_image(),
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", SERVER, repr(WORK), "/data/server", str(PORT), "0.0.0.0"],
        "securityContext": {"runAsUser": 0},
        "resources": {"requests": {"cpu": SERVER_REQUEST, "memory": "32Mi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }


async def run(node: VirtualNode) -> dict[str, Any]:
    """All states, and how well each value predicts the latency."""
    load = machine_load()
    experiment = await start_experiment(node)
    states = []
    for number, neighbours in enumerate(drawn_states(STATES, CORES, SEED)):
        state = await experiment.measure(neighbours)
        states.append(state)
        note(f"{number + 1} of {STATES}: {json.dumps(msgspec.to_builtins(state))}")
    return {
        "correlations": correlations(states, [state.p99 for state in states]),
        "correlations_with_p90": correlations(states, [state.p90 for state in states]),
        "p99_ms": [round(1_000 * value) for value in sorted(state.p99 for state in states)],
        "machine_load": [load, machine_load()],
    }


async def in_new_cluster(real: RealCluster, api: Api) -> dict[str, Any]:
    """The experiment on the virtual machine of a cluster that has just started."""
    node = VirtualNode(real=real, api=api)
    await api.apply([objects.namespace(NAMESPACE)])
    await node.start_shell()
    return await run(node)


async def main() -> None:
    real = RealCluster(prepare(ROOT, machine=CGROUP_V2), 1)
    async with real, real.cluster.api() as api:
        print_result(await in_new_cluster(real, api))


if __name__ == "__main__":
    asyncio.run(main())
