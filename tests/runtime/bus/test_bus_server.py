"""The nats-server of our own: found, started, stopped, and never left behind."""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import nats
import nats.errors
import pytest
from bus_worlds import PATIENCE, eventually, server_process

from equipoise.runtime.bus.dev_server import NoNatsServer, embedded_server, nats_server_binary

PARENT = """
import asyncio, sys
from pathlib import Path
from equipoise.runtime.bus.dev_server import embedded_server

async def main():
    async with embedded_server(Path(sys.argv[1])) as url:
        print("up", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_it_listens_on_the_loopback_with_jetstream_and_stops_with_the_block(tmp_path: Path) -> None:
    """Within the block the URL responses with JetStream; after it nobody listens there."""
    async with embedded_server(tmp_path) as url:
        assert url.startswith("nats://127.0.0.1:")
        async with await nats.connect(url) as client:
            assert (await client.jetstream().account_info()).streams == 0
        server = server_process(tmp_path)
    assert not _runs(server)


async def test_what_streams_hold_is_there_again_at_the_next_start(tmp_path: Path) -> None:
    """A second server in the same directory has the streams of the first."""
    async with embedded_server(tmp_path) as url, await nats.connect(url) as client:
        await client.jetstream().add_stream(name="KEPT", subjects=["kept"])
        await client.jetstream().publish("kept", b"message")
    async with embedded_server(tmp_path) as url, await nats.connect(url) as client:
        assert (await client.jetstream().stream_info("KEPT")).state.messages == 1


async def test_a_server_that_is_killed_is_started_again_if_that_is_wanted(tmp_path: Path) -> None:
    """At the same port, with its streams. Takes seconds: the request that the server has lost ends after 5 s."""
    async with embedded_server(tmp_path, restarts=True) as url:
        async with await nats.connect(url) as client:
            await client.jetstream().add_stream(name="KEPT", subjects=["kept"])
            killed = server_process(tmp_path)
            os.kill(killed, signal.SIGKILL)
            async with asyncio.timeout(PATIENCE):
                while True:
                    with suppress(nats.errors.Error):
                        await client.jetstream().stream_info("KEPT")
                        break
        server = server_process(tmp_path)
        assert server != killed
    assert not _runs(server)


async def test_it_dies_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    """SIGKILL of the process that started it leaves no server behind."""
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PARENT, str(tmp_path), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert parent.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE):
            while await parent.stdout.readline() != b"up\n":
                pass
        server = server_process(tmp_path)
        assert _runs(server)
    finally:
        parent.send_signal(signal.SIGKILL)
        await parent.wait()
    await eventually(lambda: not _runs(server))


async def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    """A broken configuration raises NoNatsServer with the server's own words."""
    with pytest.raises(NoNatsServer, match=r"does not start: .*Parse error"):
        async with embedded_server(tmp_path, configuration="authorization {"):
            pass


def test_the_binary_may_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """EQUIPOISE_NATS_SERVER names the binary; without it one is found, whatever PATH is."""
    monkeypatch.setenv("PATH", "")
    assert Path(nats_server_binary()).name == "nats-server"
    monkeypatch.setenv("EQUIPOISE_NATS_SERVER", "/opt/nats-server")
    assert nats_server_binary() == "/opt/nats-server"


def _runs(process: int) -> bool:
    """Whether it runs (a zombie, dead but not yet buried by the machine's init, does not)."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z" and os.path.exists(f"/proc/{process}")
