"""The collector's reflector with 150,000 pods: time to list them, memory, and watch events per second.

The responses are those of a real API server, recorded for one pod and replayed for all
(`bench.collector.recorded_api_server`): this measures the client without the time of the server.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from bench.event_loop import worst_lag
from bench.memory import peak_mb, resident_mb
from bench.output import progress, report
from equipoise.collector.decisions.pod_times import trimmed
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.runtime.configuration import Kubernetes
from equipoise.runtime.kubernetes.client import PODS
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.kubernetes.reflector import Reflector
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.main import reduce_gc_frequency

CHANGES = 50_000


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
    before = resident_mb()
    async with connect_kube(settings, "bench", SystemClock()) as kube, asyncio.TaskGroup() as tasks:
        reflector = Reflector(kube, PODS, clock=SystemClock(), on_change=on_change, trim=trimmed)
        started, cpu_before = time.monotonic(), time.process_time()
        running = [tasks.create_task(reflector.run()), tasks.create_task(worst_lag(lag))]
        await reflector.wait_synced(600)
        listed, cpu = time.monotonic() - started, time.process_time() - cpu_before
        assert len(reflector.objects) == pods
        report("reflector_150k", listed, f"s to list {pods} pods", target=("<=", 20.0), cpu_seconds=round(cpu, 2),
            event_loop_blocked_seconds=round(lag[0], 3), event_loop_cpu_seconds=round(lag[1], 3))  # fmt: skip
        report("reflector_memory", peak_mb(), "MB, peak", target=("<=", 450.0),
            now=round(resident_mb()), before=round(before))  # fmt: skip
        progress("listed; sending changes")
        lag[:] = [0.0, 0.0]
        started, cpu_before = time.monotonic(), time.process_time()
        server.stdin.write(f"{CHANGES}\n".encode())
        server.stdin.flush()
        await all_changed.wait()
        seconds, cpu = time.monotonic() - started, time.process_time() - cpu_before
        report("reflector_changes", CHANGES / seconds, "changes/s", target=(">=", 5_000.0),
            cpu_microseconds_per_change=round(cpu / CHANGES * 1e6), event_loop_blocked_seconds=round(lag[0], 3),
            event_loop_cpu_seconds=round(lag[1], 3))  # fmt: skip
        for task in running:
            task.cancel()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=150_000)
    parser.add_argument("--nodes", type=int, default=5_000)
    options = parser.parse_args()
    reduce_gc_frequency()
    command = [sys.executable, "-m", "bench.collector.recorded_api_server", str(options.pods), str(options.nodes)]
    with (
        tempfile.TemporaryDirectory(prefix="equipoise-bench-") as directory,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server,  # noqa: S603  our own module
    ):
        try:
            asyncio.run(measure(options.pods, options.nodes, server, Path(directory)))
        finally:
            server.kill()


if __name__ == "__main__":
    main()
