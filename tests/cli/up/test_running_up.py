"""`equipoise up` leaves where it is; commands find it, use it, and ignore what a process left that has ended."""

import asyncio
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from binder.ledgers import a_ledger
from builders import NOW
from bus_worlds import free_port
from cli.beating import beating, every_service
from cli.buses import Bus
from cli.effective.test_effective import published
from cli.http_clusters import HttpCluster
from cli.programs import run

from equipoise.cli.cluster_access.kubeconfig import ClusterName, Context
from equipoise.cli.effective.settings import default_settings
from equipoise.cli.up.run import complete_document
from equipoise.cli.up.running_up import RunningUp, accepts_connections, folder, process_start, recorded, running_up
from equipoise.cli.up.unused_settings import unused_settings
from equipoise.contracts.bus import subjects
from equipoise.contracts.bus.subjects import SERVICES
from equipoise.runtime.bus.nats.nats_bus import open_bus
from equipoise.runtime.configuration import without_header
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.processes.loopback import PortBlock

HOME = ClusterName(context="home", cluster="castle", server="https://castle:6443")


def an_up(**fields: Any) -> RunningUp:
    own = os.getpid()
    defaults: dict[str, Any] = {
        "cluster": HOME,
        "namespace": "equipoise-system",
        "process": own,
        "process_start": process_start(own) or "",
        "nats_url": "nats://127.0.0.1:4242",
        "user": "tap",
        "password_file": "/nowhere/tap",
        "configuration": "",
        "started_at": NOW,
    }
    return RunningUp(**(defaults | fields))


def found(tmp_path: Path, cluster: ClusterName = HOME) -> RunningUp | None:
    return running_up(cluster, state(tmp_path), accepts=lambda url: True)


def state(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path / "state")}


def files(tmp_path: Path) -> list[Path]:
    return sorted(folder(state(tmp_path)).glob("*"))


def test_a_command_finds_the_up_of_its_cluster_while_it_runs(tmp_path: Path) -> None:
    """Only of the same context, cluster and server."""
    with recorded(an_up(), state(tmp_path)):
        assert found(tmp_path) == an_up()
        for other in ({"context": "work"}, {"cluster": "tower"}, {"server": "https://tower:6443"}):
            assert found(tmp_path, msgspec.structs.replace(HOME, **other)) is None
    assert found(tmp_path) is None
    assert files(tmp_path) == []


def test_only_the_user_may_read_where_it_is(tmp_path: Path) -> None:
    with recorded(an_up(), state(tmp_path)):
        (file,) = files(tmp_path)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        file.chmod(0o666)
        assert found(tmp_path) is None, "others may have written it"


def test_what_a_process_left_that_was_killed_is_removed(tmp_path: Path) -> None:
    """Also if its id is used again, by a process that began later."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for gone in (an_up(process=ended.pid, process_start="1"), an_up(process_start="1"), an_up(process=-1)):
        with recorded(gone, state(tmp_path)):
            assert found(tmp_path) is None
            assert files(tmp_path) == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"process": "x"}', b"\xff" * 99, b"[" * 100_000])
def test_a_file_that_is_none_is_ignored_and_removed(tmp_path: Path, content: bytes) -> None:
    with recorded(an_up(), state(tmp_path)):
        (file,) = files(tmp_path)
        file.write_bytes(content)
        assert found(tmp_path) is None
        assert files(tmp_path) == []


def test_two_ups_of_two_contexts_and_two_of_one_do_not_disturb_each_other(tmp_path: Path) -> None:
    """The first one of a context leads: commands use it until it ends, then the second."""
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        work = an_up(cluster=msgspec.structs.replace(HOME, context="work"))
        second = an_up(process=sleeper.pid, process_start=process_start(sleeper.pid) or "", started_at=NOW + 9)
        with recorded(work, state(tmp_path)), recorded(second, state(tmp_path)):
            with recorded(an_up(), state(tmp_path)):
                assert found(tmp_path) == an_up()
                assert found(tmp_path, work.cluster) == work
            assert found(tmp_path) == second
    finally:
        sleeper.kill()
        sleeper.wait()
    assert files(tmp_path) == []


def test_one_whose_server_is_not_there_is_not_used_and_not_forgotten(tmp_path: Path) -> None:
    """It starts or stops at this moment."""
    with recorded(an_up(nats_url=f"nats://127.0.0.1:{free_port()}"), state(tmp_path)):
        assert running_up(HOME, state(tmp_path)) is None
        assert len(files(tmp_path)) == 1


def test_a_port_that_is_listened_on_accepts_connections() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert accepts_connections(f"nats://127.0.0.1:{server.getsockname()[1]}")
    for url in (f"nats://127.0.0.1:{free_port()}", "", "nats://[", "nats://127.0.0.1:99999"):
        assert not accepts_connections(url)


def test_without_a_place_for_the_file_up_runs_all_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "state").write_text("a file")
    with recorded(an_up(), state(tmp_path)):
        pass
    assert "other commands do not find this process without --nats" in capsys.readouterr().err


@contextmanager
def up_of(bus: Bus, cluster: HttpCluster, directory: Path, **fields: Any) -> Iterator[dict[str, str]]:
    """The variables of a command beside an `up` whose NATS server this is."""
    name = ClusterName(context="home", cluster="castle", server=cluster.url)
    running = an_up(cluster=name, nats_url=bus.url, password_file=bus.password_file("tap"), **fields)
    with recorded(running, state(directory)):
        yield {"KUBECONFIG": str(cluster.file), **state(directory)}


async def test_commands_need_no_address_beside_up(bus: Bus, cluster: HttpCluster, tmp_path: Path) -> None:
    """They state what they use, beside their output."""
    now = SystemClock().now()
    cluster.put_ledger(a_ledger(created_at=now - 9_000, started_at=now - 9_000, paused=True, pause_reason="release"))
    with up_of(bus, cluster, tmp_path) as variables:
        commands = ("status",), ("plan",), ("explain", "eviction", "shop/x"), ("hints", "shop"), ("report",)
        outputs = await asyncio.gather(*(run(*command, **variables) for command in commands))
    for _, output in outputs:
        assert f"using `equipoise up` (process {os.getpid()}, context home)\n" in output
        assert "there is no pod of NATS" not in output
    status, plan, _, hints, _ = (output for _, output in outputs)
    assert "configuration: not known: no binder has published its configuration" in status
    assert "no descheduler leads at " in plan
    assert "the scorer, which computes them: not known" in hints


async def test_nodes_are_measured_as_the_collector_measures_them(
    bus: Bus, cluster: HttpCluster, tmp_path: Path
) -> None:
    """By the file that its services read: what somebody publishes in its name is not used. An option overrides it.

    Takes seconds: three commands start one after the other.
    """
    now = SystemClock().now()
    url, other, forged = (f"http://127.0.0.1:{free_port()}" for _ in range(3))
    file = tmp_path / "equipoise.yaml"
    file.write_text(
        "apiVersion: equipoise.dev/v1alpha1\nkind: EquipoiseConfiguration\n"
        f"collector: {{prometheus: {{url: '{url}'}}}}\n"
    )
    prometheus = {**default_settings()["collector"]["prometheus"], "url": forged}
    message = msgspec.structs.replace(published("collector-1", prometheus=prometheus), at=now, started_at=now)
    async with open_bus(bus.settings("collector"), "collector", SystemClock(), None) as collector:
        await collector.publish(subjects.configuration("collector", "collector-1"), message)
    for path in ("/api/v1/nodes", "/api/v1/pods"):
        cluster.objects[path] = {"kind": "List", "metadata": {}, "items": []}
    with up_of(bus, cluster, tmp_path, services_configuration=str(file)) as variables:
        _, output = await run("nodes", **variables)
        _, chosen = await run("nodes", "--prometheus", other, **variables)
        async with beating(bus.settings, *every_service()):
            _, checked = await run("doctor", **variables)
    assert (
        f"Prometheus {url}, as in the configuration of `equipoise up` (process {os.getpid()}, context home)" in output
    )
    assert f"only the message of a collector on the bus states that collector.prometheus.url is {forged}" in checked
    assert forged not in output + chosen
    assert f"Prometheus at {url} cannot be queried" in output, output
    assert f"Prometheus at {other} cannot be queried" in chosen, chosen


async def test_the_namespace_of_up_is_used(bus: Bus, cluster: HttpCluster, tmp_path: Path) -> None:
    """The ledger of `up` is where its configuration puts it."""
    with up_of(bus, cluster, tmp_path, namespace="elsewhere") as variables:
        _, output = await run("status", **variables)
        _, chosen = await run("status", "--namespace", "mine", **variables)
    assert "namespace elsewhere does not exist" in output
    assert "namespace mine does not exist" in chosen


def unused(text: str, *, annotate: bool = False, evict: bool = False) -> list[str]:
    document = "apiVersion: equipoise.dev/v1alpha1\nkind: EquipoiseConfiguration\n" + text
    context = Context(files="/k", name="home", cluster="castle", server="")
    ports = PortBlock()
    try:
        used = complete_document(document, {}, None, context, evict=evict, ports=ports)
    finally:
        ports.release()
    given = sections_of(document)
    services = [each for each in SERVICES if annotate or each != "annotator"]
    return list(unused_settings(given, without_header(used), default_settings(), services))


def sections_of(document: str) -> dict[str, Any]:
    from equipoise.cli.effective.settings import to_sections
    from equipoise.runtime.configuration import read_document

    return dict(to_sections(read_document(document), {}))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("reclaimer: {enabled: true}", "reclaimer.enabled: true: `up` runs no reclaimer"),
        ("agent: {evict: true}", "agent.evict: true: `up` runs no agent"),
        ("annotator: {crane: true}", "annotator.crane: true: nothing is annotated and no hint"),
        ("placement: {hints: true}", "placement.hints: true: hints are computed and not written"),
        ("binder: {evict: true}", "binder.evict: true: every eviction is a dry run without --evict"),
        ("nats: {url: nats://bus:4222}", "nats: `up` runs a NATS server of its own"),
        ("kubernetes: {context: work}", "kubernetes.context: work: use --context"),
    ],
)
def test_a_setting_without_effect_is_named_at_the_start(text: str, expected: str) -> None:
    (line,) = unused(text)
    assert line.startswith(expected)


def test_settings_that_are_used_are_not_named() -> None:
    assert unused("") == []
    assert unused("thresholds: {high: {cpu: 70}}\nbinder: {limits: {rate: {max: 2}}}") == []
    assert unused("annotator: {crane: true}\nplacement: {hints: true}", annotate=True) == []
    assert unused("binder: {evict: true}", evict=True) == []
