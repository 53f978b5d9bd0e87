"""`equipoise up` with a real cluster."""

import asyncio
import json
import os
import shlex
import signal
import socket
import stat
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from cli.programs import PROGRAM, Running, processes_with, run, started
from cluster_fixtures import StartCluster

from equipoise.cli.up.run import WITHOUT_ANNOTATIONS
from equipoise.runtime.bus import BusUnavailable
from equipoise.runtime.bus.nats.connection import connected_within
from equipoise.runtime.configuration import Nats
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.objects import constant_usage_annotations, deployment, node, pod_template

pytestmark = pytest.mark.timeout(600)

# Prometheus scrapes four times a second, so five minutes are five seconds.
QUICK: dict[str, Any] = {
    "apiVersion": "equipoise.dev/v1alpha1",
    "kind": "EquipoiseConfiguration",
    "load": {
        "windows": [{"name": "15m", "length": "4s", "refreshPeriod": "1s"}],
        "coverage": {"nodeSettlingPeriod": "1s"},
    },
    "protection": {"replicasSettlingPeriod": "1s"},
    "collector": {"profile": {"enabled": False}},
    "descheduler": {"interval": "1s", "consecutiveAbnormalities": 2, "warmUp": "1s"},
}


@pytest.fixture(scope="module")
async def cluster(start_cluster: StartCluster) -> Cluster:
    """One node at 90 % of its cores, and an idle one that was added after its pods were placed."""
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
    """The command, and a tap on its bus since the start."""

    tap: Running


@pytest.fixture(scope="module")
async def up(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Up]:
    """All services but the annotator are ready. The variable does not replace --evict."""
    file = tmp_path_factory.mktemp("up") / "equipoise.yaml"
    file.write_text(json.dumps(QUICK))
    running = await started(
        "up", "--prometheus", cluster.prometheus_url, "--config", file,
        KUBECONFIG=str(cluster.kubeconfig), EQUIPOISE_BINDER__EVICT="true",
    )  # fmt: skip
    up = Up(running.process)
    begun = [running.process]
    try:
        access = (await up.prints(r"equipoise tap (--nats .*)"))[1]
        up.tap = await started("tap", "eviction", "-o", "json", *access.split())
        begun.append(up.tap.process)
        for service in WITHOUT_ANNOTATIONS:
            await up.prints(f"{service} is ready")
        yield up
    finally:
        for process in begun:
            if process.returncode is None:
                process.kill()
                await process.wait()


def summary(running: Up, name: str) -> str:
    """A row of the summary at the start."""
    return next(line.split(maxsplit=1)[1] for line in running.output.splitlines() if line.startswith(name))


async def test_the_summary_names_context_and_mode(cluster: Cluster, up: Up) -> None:
    """Evictions are dry runs."""
    assert f"testbed  (cluster testbed {cluster.url})" == summary(up, "context")
    assert summary(up, "evictions").startswith("dry run")
    assert summary(up, "annotations").startswith("none are written")
    assert "find this process" in summary(up, "commands")


async def test_a_hot_node_leads_to_a_dry_run(cluster: Cluster, up: Up) -> None:
    """The tap shows its outcome; by the audit log nothing was evicted."""
    found = await up.tap.prints(r'.*"outcome":"dry_run".*')
    up.tap.process.send_signal(signal.SIGINT)
    message = json.loads(found[0])

    assert await up.tap.ends() == 130
    assert ("hot", "idle") == (message["message"]["node"], message["message"]["target"])
    assert message["subject"] == f"equipoise.eviction.outcome.default.{message['message']['pod']}"
    assert cluster.evictions()
    assert all(eviction.dry_run for eviction in cluster.evictions())
    nodes = (await cluster.request("GET", "/api/v1/nodes"))["items"]
    assert not [node for node in nodes if "equipoise.dev/load" in node["metadata"].get("annotations", {})]


async def test_nats_admits_only_its_users(up: Up) -> None:
    """Other users of the machine reach its port: nobody but the services may propose evictions."""
    _, _, _, url, *_, password_file = summary(up, "messages").split()
    with pytest.raises(BusUnavailable, match="Authorization Violation"):
        async with connected_within(3, Nats(url=url), "tap", SystemClock()):
            pass
    assert stat.S_IMODE(Path(password_file).parent.parent.stat().st_mode) == 0o700
    assert urlsplit(url).hostname == "127.0.0.1"
    assert "not permitted" not in up.output


async def test_commands_find_it_and_show_what_its_services_run_with(cluster: Cluster, up: Up) -> None:
    """No option but the kubeconfig is needed, and files are not read."""
    code, status = await run("status", KUBECONFIG=str(cluster.kubeconfig))
    _, plan = await run("plan", KUBECONFIG=str(cluster.kubeconfig))

    assert code == 0, status
    assert f"using `equipoise up` (process {up.process.pid}, context testbed)" in status
    assert "\nevictions: dry run\n" in status
    assert "\nconfiguration: of " in status
    assert "waiting" not in status
    assert f"using `equipoise up` (process {up.process.pid}, context testbed)" in plan


async def test_a_second_up_waits_for_the_end_of_the_first(cluster: Cluster, up: Up) -> None:
    """It names the holder, and starts no service: those of two buses would share the Leases."""
    second = await started(
        "up", "--prometheus", cluster.prometheus_url, "--kubeconfig", cluster.kubeconfig,
    )  # fmt: skip
    try:
        await second.prints(rf"waits: .*: Lease equipoise-system/equipoise-up is held by \S+-{up.process.pid}\n")
        assert "ready" not in second.output
        _, plan = await run("plan", KUBECONFIG=str(cluster.kubeconfig))
        assert f"using `equipoise up` (process {up.process.pid}, context testbed)" in plan
    finally:
        second.process.send_signal(signal.SIGINT)
        await second.ends()


async def test_a_killed_service_is_restarted(up: Up) -> None:
    """The output has both."""
    directory = str(Path(summary(up, "logs")).parent)
    (scorer,) = [pid for pid, command in processes_with(directory).items() if "equipoise.scorer" in command]
    up.output = up.output.replace("scorer is ready", "scorer was ready")
    os.kill(scorer, signal.SIGKILL)
    await up.prints("scorer exited with code -9, restarting in 0.5 s")
    await up.prints("scorer is ready")


async def test_tap_ends_when_its_reader_ends(up: Up) -> None:
    """`equipoise tap | head -1` has exit code 0 and no error."""
    access = summary(up, "messages").split()[2:]
    tap = " ".join(shlex.quote(word) for word in (*PROGRAM, "tap", "utilization", *access))
    shell = await asyncio.create_subprocess_exec(
        "bash", "-c", f"{tap} | head -1; echo ${{PIPESTATUS[0]}}",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await asyncio.wait_for(shell.communicate(), 90)

    line, code = output.decode().splitlines()
    assert line.startswith("utilization.")
    assert "0" == code


async def test_pause_and_resume(cluster: Cluster, up: Up) -> None:
    """Each is a field of the ledger, which every binder reads before it evicts."""

    async def ledger() -> Any:
        path = "/api/v1/namespaces/equipoise-system/configmaps/equipoise-ledger"
        return json.loads((await cluster.request("GET", path))["data"]["ledger"])

    paused = await run("pause", "--why", "a release", "--kubeconfig", cluster.kubeconfig)
    held = await ledger()
    resumed = await run("resume", "--yes", "--kubeconfig", cluster.kubeconfig)
    free = await ledger()

    name = f"cluster: testbed {cluster.url} (context testbed)\n"
    assert (0, f"{name}paused: within 5 s nothing more is evicted, until `equipoise resume`\n") == paused
    assert (True, "a release") == (held["paused"], held["pauseReason"])
    assert (0, f"{name}resumed\n") == resumed
    assert not free.get("paused")


async def test_ctrl_c_stops_all_services(up: Up) -> None:
    """Within 25 s, with exit code 130; no process and no file remains."""
    directory = str(Path(summary(up, "logs")).parent)
    assert len(processes_with(directory)) >= len(WITHOUT_ANNOTATIONS)
    began = time.monotonic()
    up.process.send_signal(signal.SIGINT)

    assert await up.ends() == 130
    assert time.monotonic() - began < 25
    assert {} == processes_with(directory)
    assert not await asyncio.to_thread(Path(directory).exists)


async def test_evict_requires_the_name_of_the_context(cluster: Cluster) -> None:
    """Cluster, context and limits are shown; another name, or none, starts nothing."""
    arguments = ("up", "--prometheus", cluster.prometheus_url, "--kubeconfig", cluster.kubeconfig, "--evict")
    (wrong, output), (none, prompted) = await asyncio.gather(run(*arguments, "--yes", "production"), run(*arguments))

    assert 2 == wrong == none
    assert f"cluster  testbed {cluster.url}\n  context  testbed\n  limits\n    maintenance:" in output
    assert "'production' is not the name of the context, 'testbed': nothing was started" in output
    assert "use --yes with the name of the context" in prompted


async def test_evictions_do_not_follow_a_prometheus_that_was_only_found(cluster: Cluster) -> None:
    """Anybody who may create a Service could name it so."""
    code, output = await run("up", "--kubeconfig", cluster.kubeconfig, "--evict", "--yes", "testbed")

    assert code == 2
    assert "name it with --prometheus" in output


async def test_a_service_that_rejects_its_configuration_ends_the_command(cluster: Cluster, tmp_path: Path) -> None:
    """A restart would not help. The error has the service and its reason."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        file = tmp_path / "equipoise.yaml"
        file.write_text(json.dumps(QUICK | {"scorer": {"listen": address}}))
        code, output = await run(
            "up", "--prometheus", cluster.prometheus_url, "--kubeconfig", cluster.kubeconfig, "--config", file
        )

    assert code == 2
    assert "scorer rejects its configuration" in output
    assert address in output
    assert "Traceback" not in output
