"""A service as a program of its own: exit codes, signals, and a configuration that changes under it."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from bus_worlds import PATIENCE
from tls_worlds import DAY, NOW, TlsWorld

from equipoise.cli.certificates.issue import new_ca
from equipoise.runtime.bus.dev_server import embedded_server
from equipoise.runtime.bus.setup import setup_streams

PROGRAM = """
import asyncio
from equipoise.contracts.configuration.settings import Section
from equipoise.runtime.process.lifecycle import Runtime
from equipoise.runtime.process.main import run

class Own(Section, frozen=True, kw_only=True):
    health: str = "127.0.0.1:0"

async def start(runtime: Runtime[Own]) -> None:
    await asyncio.Event().wait()

run("scorer", Own, start, kube=False)
"""


def program(text: str = PROGRAM, **environment: str) -> subprocess.Popen[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("EQUIPOISE_")}
    return subprocess.Popen(
        [sys.executable, "-c", text], stderr=subprocess.PIPE, text=True, env={**inherited, **environment}
    )


async def received(event: str, process: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait until the program logs this."""
    assert process.stderr is not None
    lines = []
    while line := await asyncio.to_thread(process.stderr.readline):
        lines.append(line)
        if (published := json.loads(line))["event"] == event:
            return dict(published)
    raise AssertionError(f"never {event}: {''.join(lines)}")


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"EQUIPOISE_CONFIG": "/does/not/exist.yaml"}, "equipoise scorer: the file /does/not/exist.yaml"),
        ({"EQUIPOISE_SCORER__HELTH": "x"}, "equipoise scorer: EQUIPOISE_SCORER__HELTH"),
        ({"EQUIPOISE_SCORER__HEALTH": "x"}, "equipoise scorer: 'x' is no address"),
    ],
)
def test_a_wrong_configuration_is_exit_code_2_and_a_plain_message(environment: dict[str, str], message: str) -> None:
    """No traceback: the last line contains what to fix."""
    with program(**environment) as process:
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 2
    assert errors.splitlines()[-1].startswith(message)
    assert "Traceback" not in errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_program_without_a_bus_logs_that_it_waits_and_stops_at_a_signal(number: signal.Signals) -> None:
    """JSON lines on stderr; /readyz is 503; code 0 at the signal."""
    with program(EQUIPOISE_NATS__URL="nats://127.0.0.1:1") as process:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(json.loads(line))
            if lines[-1]["event"] == "waiting for the bus":
                break
        process.send_signal(number)
        _, rest = process.communicate(timeout=30)
    assert process.returncode == 0
    lines += [json.loads(line) for line in rest.splitlines()]
    assert [line["event"] for line in lines if line["level"] == "info"] == ["starting", "health", "stopping", "stopped"]
    assert {line["service"] for line in lines} == {"scorer"}


COUNTING = """
    import threading, structlog
    before = threading.active_count()
    await asyncio.to_thread(len, "")
    structlog.get_logger().info("threads", started=threading.active_count() - before)
    await asyncio.Event().wait()
"""


async def test_a_program_starts_no_thread_when_it_needs_one() -> None:
    """All have started with it."""
    text = PROGRAM.replace("\n    await asyncio.Event().wait()\n", COUNTING).replace(
        "kube=False", "kube=False, bus=False"
    )
    with program(text) as process:
        assert (await received("threads", process))["started"] == 0
        process.terminate()
        process.communicate(timeout=30)


STUBBORN = """
    runtime.health.warmed_up()
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
"""


async def test_a_service_that_does_not_heed_its_end_is_ended(tmp_path: Path) -> None:
    """Kubernetes would kill it a little later anyway, without a word in the log."""
    text = PROGRAM.replace("\n    await asyncio.Event().wait()\n", STUBBORN)
    text = text.replace("kube=False", "kube=False, stop_limit=0.3")
    async with embedded_server(tmp_path) as url:
        process = program(text, EQUIPOISE_NATS__URL=url)
        try:
            await received("warmed up", process)
            process.terminate()
            _, errors = await asyncio.to_thread(process.communicate, timeout=30)
        finally:
            process.kill()
            process.communicate()
    assert process.returncode == 1
    assert "not stopped in time" in errors


async def test_a_running_program_serves_its_health() -> None:
    """Its address is in the log; without a bus it is not ready, but healthy."""
    process = program(EQUIPOISE_NATS__URL="nats://127.0.0.1:1")
    try:
        address = (await received("health", process))["address"]
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://{address}/readyz") as reply:
                assert reply.status == 503
                assert "nats" in (await reply.json())["waiting_for"]
            async with session.get(f"http://{address}/healthz") as reply:
                assert reply.status == 200
            async with session.get(f"http://{address}/metrics") as reply:
                assert 'equipoise_build_info{service="scorer"' in await reply.text()
    finally:
        process.kill()
        process.communicate()


async def test_readiness_names_an_expired_certificate_until_it_is_renewed(tmp_path: Path) -> None:
    """At the start and later; with another CA. The process goes on, and is ready without a restart.

    Takes seconds: after each change, a client waits up to 2 s before it connects again.
    """
    world = TlsWorld(tmp_path)
    world.serve(now=NOW - 2 * DAY)
    await world.start()
    process = program(EQUIPOISE_NATS__URL=world.settings.url, EQUIPOISE_NATS__TLS__CA_FILE=str(world.ca_file))
    try:
        address = (await received("health", process))["address"]
        async with aiohttp.ClientSession() as session:

            async def until(problem: str) -> None:
                """Until it is the only problem, or there is none."""
                async with asyncio.timeout(PATIENCE):
                    while True:
                        async with session.get(f"http://{address}/readyz") as response:
                            report = await response.json(content_type=None)
                        named = problem in str(report["problems"]) if problem else report["problems"] == []
                        if named and report["connections"] == {"nats": not problem}:
                            return
                        await asyncio.sleep(0.05)

            await until("certificate has expired")
            world.serve(now=NOW)
            await world.reload()
            await setup_streams(world.settings, intent_max_age=60)
            await until("")
            world.serve(now=NOW - 2 * DAY)
            await world.stop()
            await world.start()
            await until("certificate has expired")
            other = new_ca(NOW)
            world.ca_file.write_bytes(other.certificate_text)
            world.serve(now=NOW, ca=other)
            await world.reload()
            await until("")
    finally:
        process.kill()
        process.communicate()
        await world.stop()


CONFIGURATION = """
apiVersion: equipoise.dev/v1alpha1
kind: EquipoiseConfiguration
nats: {{url: "nats://127.0.0.1:1"}}
scorer: {{health: "{health}"}}
"""


@contextmanager
def configured_program(path: Path) -> Iterator[subprocess.Popen[str]]:
    """It looks at its file ten times a second."""
    path.write_text(CONFIGURATION.format(health="127.0.0.1:0"))
    text = "import equipoise.runtime.process.main as reload\nreload.PERIOD = 0.1\n" + PROGRAM
    process = program(text, EQUIPOISE_CONFIG=str(path))
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


async def test_a_changed_configuration_is_taken_up(tmp_path: Path) -> None:
    """The same process, now at the new address; there is no response at the old one."""
    path = tmp_path / "equipoise.yaml"
    with configured_program(path) as process:
        old = (await received("health", process))["address"]
        path.write_text(CONFIGURATION.format(health="127.0.0.2:0"))
        assert (await received("the configuration has changed", process))["before"]
        new = (await received("health", process))["address"]
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://{new}/healthz") as reply:
                assert reply.status == 200
            with pytest.raises(aiohttp.ClientConnectionError):
                await session.get(f"http://{old}/healthz")
        process.terminate()
        assert await asyncio.to_thread(process.wait, 30) == 0


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda text: text.replace("health:", "helth:"), "helth"),
        (lambda text: text.replace("127.0.0.1:0", "192.0.2.1:80"), "cannot be listened on"),
        (lambda text: "", "apiVersion"),
    ],
    ids=["misspelt", "cannot be listened on", "empty"],
)
async def test_a_configuration_that_cannot_be_used_is_reported_and_ignored(
    tmp_path: Path, change: Any, why: str
) -> None:
    """Whether its text is wrong or it only turns out so at the start: the service goes on with what it had."""
    path = tmp_path / "equipoise.yaml"
    with configured_program(path) as process:
        await received("health", process)
        path.write_text(change(CONFIGURATION.format(health="127.0.0.1:0")))
        problem = await received("problem", process)
        assert problem["key"] == "configuration"
        assert why in problem["text"]
        path.write_text(CONFIGURATION.format(health="127.0.0.3:0"))
        while not (await received("health", process))["address"].startswith("127.0.0.3:"):
            pass
