"""How long the collector's reflector takes to list 150,000 pods, what they weigh, how many changes it keeps up with.

The answer is that of a real API server, recorded for one pod and played back for all (`bench.recorded_api_server`):
what is measured is our side, without the server's own seconds.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from bench.line import progress, say
from equipoise.collector.state.pod_times import trimmed
from equipoise.contracts.kubernetes.objects import Pod
from equipoise.runtime.configuration import Kubernetes
from equipoise.runtime.kubernetes.client import PODS
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.kubernetes.reflector import Reflector
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.main import reduce_gc_frequency

CHANGES = 50_000
LAG_PERIOD = 0.01


def kubeconfig(directory: Path, port: int) -> Path:
    file = directory / "kubeconfig"
    document = {
        "apiVersion": "v1", "kind": "Config", "current-context": "recorded",
        "clusters": [{"name": "recorded", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "nobody", "user": {}}],
        "contexts": [{"name": "recorded", "context": {"cluster": "recorded", "user": "nobody"}}],
    }  # fmt: skip
    file.write_text(yaml.safe_dump(document))
    return file


def resident_mb(field: str) -> float:
    """10⁶ bytes: VmRSS now, VmHWM the most so far."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(f"{field}:")) * 1024 / 1e6


async def worst_lag(longest: list[float]) -> None:
    """Keeps the longest time for which the event loop was held: by the wall clock, and in seconds of its processor.

    On a busy machine the first is mostly the others' doing.
    """
    while True:
        begun, spent = time.monotonic(), time.thread_time()
        await asyncio.sleep(LAG_PERIOD)
        longest[0] = max(longest[0], time.monotonic() - begun - LAG_PERIOD)
        longest[1] = max(longest[1], time.thread_time() - spent)


async def measure(pods: int, nodes: int, server: "subprocess.Popen[bytes]", directory: Path) -> None:
    assert server.stdout is not None
    assert server.stdin is not None
    port = int(await asyncio.to_thread(server.stdout.readline))
    changed, all_changed, lag = 0, asyncio.Event(), [0.0, 0.0]

    def on_change(before: Pod | None, after: Pod | None) -> None:
        nonlocal changed
        changed += before is not None
        if changed == CHANGES:
            all_changed.set()

    settings = Kubernetes(kubeconfig=str(kubeconfig(directory, port)))
    before = resident_mb("VmRSS")
    async with connect_kube(settings, "bench", SystemClock()) as kube, asyncio.TaskGroup() as tasks:
        reflector = Reflector(kube, PODS, clock=SystemClock(), on_change=on_change, trim=trimmed)
        begun, spent = time.monotonic(), time.process_time()
        running = [tasks.create_task(reflector.run()), tasks.create_task(worst_lag(lag))]
        await reflector.wait_synced(600)
        listed, cpu = time.monotonic() - begun, time.process_time() - spent
        assert len(reflector.objects) == pods
        say("reflector_150k", listed, f"s to list {pods} pods", target=("<=", 20.0), cpu_seconds=round(cpu, 2),
            event_loop_held_seconds=round(lag[0], 3), of_the_processor=round(lag[1], 3))  # fmt: skip
        say("reflector_memory", resident_mb("VmHWM"), "MB resident at most", target=("<=", 450.0),
            now=round(resident_mb("VmRSS")), before=round(before))  # fmt: skip
        progress("listed; now changes")
        lag[:] = [0.0, 0.0]
        begun, spent = time.monotonic(), time.process_time()
        server.stdin.write(f"{CHANGES}\n".encode())
        server.stdin.flush()
        await all_changed.wait()
        took, cpu = time.monotonic() - begun, time.process_time() - spent
        say("reflector_changes", CHANGES / took, "changes/s", target=(">=", 5_000.0),
            cpu_microseconds_each=round(cpu / CHANGES * 1e6), event_loop_held_seconds=round(lag[0], 3),
            of_the_processor=round(lag[1], 3))  # fmt: skip
        for task in running:
            task.cancel()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--pods", type=int, default=150_000)
    arguments.add_argument("--nodes", type=int, default=5_000)
    asked = arguments.parse_args()
    reduce_gc_frequency()
    command = [sys.executable, "-m", "bench.recorded_api_server", str(asked.pods), str(asked.nodes)]
    with (
        tempfile.TemporaryDirectory(prefix="equipoise-bench-") as directory,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server,  # noqa: S603  ourselves
    ):
        try:
            asyncio.run(measure(asked.pods, asked.nodes, server, Path(directory)))
        finally:
            server.kill()


if __name__ == "__main__":
    main()
