"""Which of utilization and pressure predicts the latency of a server, and which pods leave because of each.

The machine is one node (root, cgroup v1, a kernel with pressure). A server answers requests in one pod, beside
neighbours of several kinds in pods with the shares and limits that a kubelet gives them: CPU burners, writers and
readers of disks. In each state of the node, the utilization, the pressure and the slowest percent of the requests are
measured. Then the descheduler's own code decides which pods would leave, and the same state is measured without them.

Contention for memory bandwidth is not measured: pressure does not contain it, and the machine has no counters of it.
"""

import argparse
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from bench.output import progress, report
from bench.pressure.client import connected, latencies, prefer_this_process
from bench.pressure.correlation import rank_correlation, ranks
from bench.pressure.machine import Measured, measured, read_counters
from bench.pressure.neighbours import QUOTA, SERVER_SHARES, SHARES, Kind, Neighbour, drawn_states
from bench.pressure.programs import BURNER, READER, SERVER, WRITER
from bench.pressure.rules import RULES, moved_pods
from bench.pressure.rules import SERVER as SERVER_POD

sys.path.insert(0, "tests")
from agent.real_cgroups import RealCgroups, real_cgroups

PORT = 18_089
RATE = 100.0
"""Requests per second."""

WORK = 0.002
"""Seconds of CPU of a request."""

SETTLING = 1.0
"""Seconds after a change of the pods, before anything is measured."""

SLOW = 0.025
"""Seconds: a state is harmful if the slowest percent of the requests takes longer."""

SERVER_FILE, READER_FILE = 256, 1_024
"""MiB."""


class State(msgspec.Struct, frozen=True, kw_only=True):
    """One measured state of the node."""

    neighbours: str
    p99: float
    """Seconds."""

    seen: Measured

    @property
    def waiting(self) -> float:
        return self.seen.waiting["cpu"]

    @property
    def waiting_for_disk(self) -> float:
        return self.seen.waiting["io"]

    @property
    def server_waiting(self) -> float:
        """How long the pod of the server waits for CPU or disks."""
        of_server = self.seen.pods_waiting[SERVER_POD]
        return max(of_server["cpu"], of_server["io"])


class Node:
    """The machine, with the server and the neighbours of the current state."""

    def __init__(self, cgroups: RealCgroups, folder: Path, cores: int, seconds: float) -> None:
        self._cgroups, self._folder, self._cores, self._seconds = cgroups, folder, cores, seconds
        self._pids: dict[str, list[int]] = {}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        server = f"{WORK!r}", str(folder / "server"), str(PORT), "127.0.0.1"
        self._start(SERVER_POD, SERVER, server, SERVER_SHARES)
        self._connection = connected(PORT)

    def measure(self, neighbours: Sequence[Neighbour]) -> State:
        """The state with exactly these neighbours."""
        for name in [name for name in self._running if name != SERVER_POD]:
            self._cgroups.stop(self._running.pop(name))
            del self._pids[name]
        for neighbour in neighbours:
            self._start_neighbour(neighbour)
        latencies(self._connection, RATE, SETTLING)
        before = read_counters(self._cgroups.top, self._pids)
        answered = sorted(latencies(self._connection, RATE, self._seconds))
        after = read_counters(self._cgroups.top, self._pids)
        return State(
            neighbours=" ".join(f"{item.name}@{item.busy:g}" for item in neighbours) or "none",
            p99=answered[math.ceil(0.99 * len(answered)) - 1],
            seen=measured(before, after, self._cores),
        )

    def _start_neighbour(self, neighbour: Neighbour) -> None:
        if neighbour.kind == "writer":
            program, arguments = WRITER, [str(self._folder / neighbour.name)]
        elif neighbour.kind == "reader":
            program, arguments = READER, [str(self._folder / "reader")]
        else:
            program, arguments = BURNER, [str(neighbour.busy)]
        quota = QUOTA if neighbour.kind == "throttled" else None
        self._start(neighbour.name, program, arguments, SHARES[neighbour.kind], quota)

    def _start(self, pod: str, program: str, arguments: Sequence[str], shares: int, quota: int | None = None) -> None:
        self._cgroups.make(pod)
        self._cgroups.put(pod, "cpu.shares", str(shares))
        self._cgroups.put(pod, "cpu.cfs_quota_us", str(-1 if quota is None else quota))
        code = f"import sys; sys.argv = ['', *{list(arguments)!r}]\n{program}"
        process = self._cgroups.run(pod, code)
        self._running[pod], self._pids[pod] = process, [process.pid]


def end_by_exception(number: int, _: object) -> None:
    """Ends the process so that its pods, groups and files are removed."""
    raise SystemExit(128 + number)


@contextmanager
def files() -> Iterator[Path]:
    """A folder with the files of the server and of readers, on a disk: /tmp may be memory."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        folder = Path(directory)
        for name, size in (("server", SERVER_FILE), ("reader", READER_FILE)):
            with (folder / name).open("wb") as file:
                for _ in range(size):
                    file.write(os.urandom(1 << 20))
                os.fsync(file.fileno())
        yield folder


def report_correlations(states: Sequence[State]) -> None:
    """How well each value ranks the states as their latency does."""
    slow = [state.p99 for state in states]
    utilization = [state.seen.utilization for state in states]
    pressure = [max(state.waiting, state.waiting_for_disk) for state in states]
    both = [a + b for a, b in zip(ranks(utilization), ranks(pressure), strict=True)]
    predictors = {
        "utilization": utilization,
        "pressure_cpu": [state.waiting for state in states],
        "pressure_io": [state.waiting_for_disk for state in states],
        "pressure": pressure,
        "both": both,
        "pressure_of_the_server": [state.server_waiting for state in states],
    }
    for name, values in predictors.items():
        report(f"pressure_rank_correlation_{name}", rank_correlation(values, slow), "rho", states=float(len(states)))


def report_rules(node: Node, drawn: Sequence[Sequence[Neighbour]], states: Sequence[State], cores: int) -> None:
    """Measures each state again without the pods that each rule would move."""
    evicted = {rule.name: 0 for rule in RULES}
    after: dict[str, list[float]] = {rule.name: [] for rule in RULES}
    for number, (neighbours, state) in enumerate(zip(drawn, states, strict=True)):
        kinds: dict[str, Kind] = {item.name: item.kind for item in neighbours}
        without: dict[frozenset[str], float] = {frozenset(): state.p99}
        for rule in RULES:
            moved = frozenset(moved_pods(rule, state.seen, kinds, cores))
            evicted[rule.name] += len(moved)
            if moved not in without:
                without[moved] = node.measure([item for item in neighbours if item.name not in moved]).p99
            after[rule.name].append(without[moved])
        progress(f"levelled {number + 1} of {len(states)}: {state.neighbours}")
    before = [state.p99 for state in states]
    for rule in RULES:
        report(
            "pressure_evictions", float(evicted[rule.name]), "pods", rule=rule.name,
            harmful_before=float(sum(value > SLOW for value in before)),
            harmful_after=float(sum(value > SLOW for value in after[rule.name])),
            median_p99_before_ms=1_000 * statistics.median(before),
            median_p99_after_ms=1_000 * statistics.median(after[rule.name]),
            mean_p99_before_ms=1_000 * statistics.mean(before),
            mean_p99_after_ms=1_000 * statistics.mean(after[rule.name]),
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", type=int, default=33, help="states of the node (default 33: each mix three times)")
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds in which a state is measured")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, help="write each state as a JSON line")
    options = parser.parse_args()
    cores = os.cpu_count() or 1
    drawn = drawn_states(options.states, cores, options.seed)
    begin = time.monotonic()
    signal.signal(signal.SIGTERM, end_by_exception)
    prefer_this_process()
    with files() as folder, real_cgroups() as cgroups:
        node = Node(cgroups, folder, cores, options.seconds)
        states = []
        for number, neighbours in enumerate(drawn):
            states.append(node.measure(neighbours))
            last = states[-1]
            progress(
                f"{number + 1} of {len(drawn)}: p99 {1_000 * last.p99:.1f} ms, utilization "
                f"{last.seen.utilization:.0%}, waits for CPU {last.waiting:.0%}, disks {last.waiting_for_disk:.0%}; "
                f"{last.neighbours}"
            )
        if options.results is not None:
            options.results.write_text("".join(f"{json.dumps(msgspec.to_builtins(state))}\n" for state in states))
        report_correlations(states)
        report_rules(node, drawn, states, cores)
    report("pressure_duration", time.monotonic() - begin, "s")


if __name__ == "__main__":
    main()
