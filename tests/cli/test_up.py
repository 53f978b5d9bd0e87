"""`equipoise up` beside a real cluster: five services in one command, watched through its own bus."""

import asyncio
import json
import os
import shlex
import signal
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cli.programs import PROGRAM, Running, processes_with, run, started

from equipoise.contracts.bus.subjects import SERVICES
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.objects import deployment, node, pod_template
from equipoise.testbed.pytest_fixture import StartCluster
from equipoise.testbed.usage import constant_usage_annotations

pytestmark = pytest.mark.timeout(600)

# Prometheus scrapes four times a second, so five minutes are five seconds.
QUICK: dict[str, Any] = {
    "apiVersion": "equipoise.dev/v1alpha1",
    "kind": "EquipoiseConfiguration",
    "load": {
        "windows": [{"name": "15m", "length": "4s", "refreshPeriod": "1s"}],
        "coverage": {"nodeSettling": "1s"},
    },
    "protection": {"replicasSettling": "1s"},
    "collector": {"profile": {"enabled": False}},
    "descheduler": {"interval": "1s", "consecutiveAbnormalities": 2, "warmUp": "1s"},
}


@pytest.fixture(scope="module")
async def cluster(start_cluster: StartCluster) -> Cluster:
    """One node at nine tenths of its cores, and an idle one that came too late."""
    from equipoise.testbed.processes.configuration import PrometheusConfiguration

    cluster = await asyncio.to_thread(start_cluster, prometheus=PrometheusConfiguration(scrape_interval=0.25))
    await cluster.add_nodes([node("hot", cpu=4)])
    template = pod_template("web", annotations=constant_usage_annotations(900, 256))
    await cluster.apply([deployment("web", template, replicas=4)])
    await cluster.wait(
        "/api/v1/namespaces/default/pods",
        lambda pods: [pod["status"].get("phase") for pod in pods["items"]] == 4 * ["Running"],
    )
    await cluster.add_nodes([node("idle", cpu=4)])
    return cluster


class Up(Running):
    """The command, and a tap on its bus from the beginning."""

    tap: Running


@pytest.fixture(scope="module")
async def up(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Up]:
    """All five are ready. A variable that would evict for real is no match for the missing --evict."""
    file = tmp_path_factory.mktemp("up") / "equipoise.yaml"
    file.write_text(json.dumps(QUICK))
    running = await started(
        "up", "--prometheus", cluster.prometheus_url, "--config", file,
        KUBECONFIG=str(cluster.kubeconfig), EQUIPOISE_BINDER__EVICT="true",
    )  # fmt: skip
    up = Up(running.process)
    begun = [running.process]
    try:
        url = (await up.says(r"equipoise tap --nats (\S+)"))[1]
        up.tap = await started("tap", "eviction", "-o", "json", "--nats", url)
        begun.append(up.tap.process)
        for service in SERVICES:
            await up.says(f"{service} is ready")
        yield up
    finally:
        for process in begun:
            if process.returncode is None:
                process.kill()
                await process.wait()


def told(running: Up, name: str) -> str:
    """What the rows at the beginning say."""
    return next(line.split(maxsplit=1)[1] for line in running.said.splitlines() if line.startswith(name))


async def test_it_says_what_it_stands_on(cluster: Cluster, up: Up) -> None:
    """Context, cluster, where to watch, and that nothing is evicted."""
    assert f"testbed  (cluster testbed {cluster.url})" == told(up, "context")
    assert told(up, "evictions").startswith("dry run")


async def test_a_hot_node_is_seen_and_nothing_is_evicted(cluster: Cluster, up: Up) -> None:
    """The tap shows the dry run's outcome, and by the audit log it was one."""
    found = await up.tap.says(r'.*"outcome":"dry_run".*')
    up.tap.process.send_signal(signal.SIGINT)
    message = json.loads(found[0])

    assert await up.tap.ends() == 130
    assert ("hot", "idle") == (message["message"]["node"], message["message"]["target"])
    assert message["subject"] == f"equipoise.eviction.outcome.default.{message['message']['pod']}"
    assert cluster.evictions()
    assert all(eviction.dry_run for eviction in cluster.evictions())


async def test_a_killed_service_starts_again(up: Up) -> None:
    """And both are said."""
    directory = str(Path(told(up, "logs")).parent)
    (scorer,) = [pid for pid, command in processes_with(directory).items() if "equipoise.scorer" in command]
    up.said = up.said.replace("scorer is ready", "scorer was ready")
    os.kill(scorer, signal.SIGKILL)
    await up.says("scorer ended with code -9, starts again in 0.5 s")
    await up.says("scorer is ready")


async def test_who_reads_the_tap_may_leave(up: Up) -> None:
    """`equipoise tap | head -1` ends by itself, and quietly."""
    url = told(up, "watch it").split()[-1]
    tap = " ".join(shlex.quote(word) for word in (*PROGRAM, "tap", "utilization", "--nats", url))
    shell = await asyncio.create_subprocess_exec(
        "bash", "-c", f"{tap} | head -1; echo ${{PIPESTATUS[0]}}",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await asyncio.wait_for(shell.communicate(), 90)

    line, code = said.decode().splitlines()
    assert line.startswith("utilization.")
    assert "0" == code


async def test_pause_and_resume(cluster: Cluster, up: Up) -> None:
    """One command each writes into the ledger, where every binder must look before it evicts."""

    async def ledger() -> Any:
        path = "/api/v1/namespaces/equipoise-system/configmaps/equipoise-ledger"
        return json.loads((await cluster.request("GET", path))["data"]["ledger"])

    paused = await run("pause", "--why", "a release", "--kubeconfig", cluster.kubeconfig)
    held = await ledger()
    resumed = await run("resume", "--kubeconfig", cluster.kubeconfig)
    free = await ledger()

    assert (0, "paused: nothing is evicted until `equipoise resume`\n") == paused
    assert (True, "a release") == (held["paused"], held["pausedWhy"])
    assert (0, "resumed\n") == resumed
    assert not free.get("paused")


async def test_ctrl_c_ends_everything_in_order(up: Up) -> None:
    """Within 25 s, with the exit code of an interruption, and nothing is left: no process and no file."""
    directory = str(Path(told(up, "logs")).parent)
    assert len(processes_with(directory)) >= len(SERVICES)
    began = time.monotonic()
    up.process.send_signal(signal.SIGINT)

    assert await up.ends() == 130
    assert time.monotonic() - began < 25
    assert {} == processes_with(directory)
    assert not await asyncio.to_thread(Path(directory).exists)


async def test_evicting_takes_the_name_of_the_context(cluster: Cluster) -> None:
    """Cluster, context and limits are shown; any other name, or none, starts nothing."""
    arguments = ("up", "--prometheus", cluster.prometheus_url, "--kubeconfig", cluster.kubeconfig, "--evict")
    (wrong, said), (none, asked) = await asyncio.gather(run(*arguments, "--yes", "production"), run(*arguments))

    assert 2 == wrong == none
    assert f"cluster  testbed {cluster.url}\n  context  testbed\n  limits\n    maintenance:" in said
    assert "'production' is not the context's name, 'testbed': nothing was started" in said
    assert "give the context's name with --yes" in asked


async def test_a_service_that_does_not_accept_its_configuration_ends_all(cluster: Cluster, tmp_path: Path) -> None:
    """Starting it again would not help: it is said which service, and why."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        file = tmp_path / "equipoise.yaml"
        file.write_text(json.dumps(QUICK | {"scorer": {"listen": address}}))
        code, said = await run(
            "up", "--prometheus", cluster.prometheus_url, "--kubeconfig", cluster.kubeconfig, "--config", file
        )

    assert code == 2
    assert "scorer does not accept its configuration" in said
    assert address in said
    assert "Traceback" not in said
