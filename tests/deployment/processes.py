"""Runs the programs of containers as plain processes, with the mounts, variables and ports of their containers.

Each program has a folder that contains its mounts. In commands, variables and mounted files, a mounted path is replaced
by its path in that folder, and a port by a free port of this machine. Other paths remain and are not found. Names of
other containers are overridden with the environment variables of the services.
"""

import asyncio
import os
import re
import signal
import ssl
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import nats
from deployment.base import NAMESPACE, ROOT
from deployment.certificates import NATS_SECRET
from deployment.programs import KUBECONFIG, SERVICE_ACCOUNT, VOLUME, Program
from nats.aio.client import Client

from equipoise.cli.service_settings import SERVICE_SETTINGS
from equipoise.contracts.bus.subjects import SERVICES
from equipoise.runtime.bus.dev_server import nats_server_binary
from equipoise.runtime.process.lifecycle import WithHealth
from equipoise.testbed.binaries.build import Binaries
from equipoise.testbed.cluster import Cluster

NATS_PORT = 4222
EXTENDER_PORT = 8888
PAGE_PORT = 8765
_SERVER_PORTS = (NATS_PORT, 8222, 9090)

_SECRET = re.compile(r"secret:([\w-]+)")

_WGET = """#!{python}
import sys, urllib.request
urllib.request.urlopen(sys.argv[-1], timeout=3).read()
"""
"""Sufficient for health checks. The images contain wget, this machine may not."""


class Folder(msgspec.Struct, frozen=True, kw_only=True):
    """The files of one set of programs."""

    path: Path
    passwords: Mapping[str, str]
    """Values of `secret:<key>` and `secret:<Secret>/<key>`."""

    files: Mapping[str, str] = {}
    """Text to mount instead of a file of the repository."""


class Machine:
    """Runs one set of programs."""

    def __init__(self, cluster: Cluster, binaries: Binaries, programs: Mapping[str, Program], folder: Folder) -> None:
        self.programs = programs
        self.path = folder.path
        self.evict = False
        """Overrides `binder.evict`."""

        self._cluster = cluster
        self._folder = folder
        self._pids: dict[str, int] = {}
        self._environments: dict[str, dict[str, str]] = {}
        self._ports = {
            port: cluster.free_port() for port in (*_SERVER_PORTS, EXTENDER_PORT, PAGE_PORT, *_health_ports().values())
        }
        self._bin = folder.path / "bin"
        self._bin.mkdir(parents=True)
        (self._bin / "nats-server").symlink_to(nats_server_binary())
        (self._bin / "prometheus").symlink_to(binaries.prometheus)
        (self._bin / "wget").write_text(_WGET.format(python=sys.executable))
        (self._bin / "wget").chmod(0o755)

    def url(self, port: int, scheme: str = "http") -> str:
        """The local URL of a container port."""
        return f"{scheme}://127.0.0.1:{self._ports[port]}"

    def log(self, name: str) -> Path:
        return self.path / f"{name}.log"

    async def start(self, name: str) -> None:
        program = self.programs[name]
        self._environments[name] = await self._prepare(program)
        self._pids[name] = self._run(program, program.command, self._environments[name])

    def kill(self, name: str) -> None:
        self._cluster.guard.stop(self._pids[name], number=signal.SIGKILL)

    def stop(self) -> None:
        """As `docker compose down`: services before their dependencies, with SIGTERM and the grace period."""
        services = [name for name in self._pids if name in SERVICES]
        self._stop(services)
        self._stop([name for name in self._pids if name in self.programs and name not in services])

    def _stop(self, names: list[str]) -> None:
        guard = self._cluster.guard
        running = [name for name in names if guard.exit_code(self._pids[name]) is None]
        for name in running:
            guard.send(self._pids[name], signal.SIGTERM)
        for name in running:
            grace = self.programs[name].grace_seconds
            # Signal 0 does nothing: a second SIGTERM would end a process that is already past its handlers.
            code = guard.stop(self._pids[name], number=0, timeout=grace)
            expected = 0 if name in SERVICES else code
            assert code == expected, f"{name} ended with code {code} or not within {grace} s:\n{self.tail(name)}"

    async def completed(self, name: str, seconds: float = 120.0) -> None:
        """Wait until it has ended with code 0."""
        code = await self._exit_code(self._pids[name], seconds)
        assert code == 0, f"{name} ended with code {code}:\n{self.tail(name)}"

    async def healthy(self, name: str, seconds: float = 120.0) -> None:
        """Wait until its own health check passes."""
        program = self.programs[name]
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            self._assert_runs(name)
            pid = self._run(program, program.health_command, self._environments[name], log="checks.log")
            if await self._exit_code(pid, 20) == 0:
                return
            assert asyncio.get_running_loop().time() < deadline, f"{name} is not healthy:\n{self.tail(name)}"
            await asyncio.sleep(0.5)

    async def ready(self, name: str, seconds: float = 120.0) -> None:
        """Wait until /readyz is 200."""
        deadline = asyncio.get_running_loop().time() + seconds
        while not (report := await self.readiness(name)).get("ready"):
            self._assert_runs(name)
            assert asyncio.get_running_loop().time() < deadline, f"{name} is not ready: {report}\n{self.tail(name)}"
            await asyncio.sleep(0.1)

    async def waiting(self, name: str, problem: str, seconds: float = 120.0) -> dict[str, Any]:
        """The body of /readyz when it is alive, and reports this problem."""
        health = self.programs[name].health
        assert health is not None
        deadline = asyncio.get_running_loop().time() + seconds
        report: dict[str, Any] = {}
        while not any(problem in each for each in report.get("problems", ())):
            self._assert_runs(name)
            assert asyncio.get_running_loop().time() < deadline, f"{name} does not report it: {report}"
            await asyncio.sleep(0.1)
            report = await self.readiness(name)
        async with aiohttp.ClientSession() as session, session.get(f"{self.url(health.port)}/healthz") as response:
            assert response.status == 200, f"{name} would be restarted"
        return report

    async def readiness(self, name: str) -> dict[str, Any]:
        """The body of /readyz; empty when there is no response."""
        health = self.programs[name].health
        assert health is not None
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=3)) as session,
                session.get(f"{self.url(health.port)}/readyz") as response,
            ):
                report: dict[str, Any] = await response.json(content_type=None)
                return report
        except (aiohttp.ClientError, TimeoutError):
            return {}

    def tail(self, name: str, lines: int = 15) -> str:
        log = self.log(name)
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else ""

    def run_command(self, name: str, command: tuple[str, ...]) -> None:
        """A command of a user, such as `equipoise tap`."""
        self._pids[name] = self._cluster.guard.start(
            command, log=self.log(name), directory=self.path, environment=self._path_variable()
        )

    def tap_access(self) -> tuple[str, ...]:
        """The options with which a command connects to NATS, as behind a port-forward."""
        password = self.path / "tap.password"
        password.write_text(self._folder.passwords["tap"])
        url = self.url(NATS_PORT, "tls")
        return "--nats", url, "--user", "tap", "--password-file", str(password), "--nats-ca", str(self.nats_ca())

    def nats_ca(self) -> Path:
        file = self.path / "nats-ca.crt"
        file.write_text(self._folder.passwords[f"{NATS_SECRET}/ca.crt"])
        return file

    async def nats_client(self, user: str) -> Client:
        """Connected as this user, over TLS."""
        return await nats.connect(
            self.url(NATS_PORT, "tls"),
            user=user,
            password=self._folder.passwords[user],
            inbox_prefix=f"_INBOX.{user}".encode(),
            tls=ssl.create_default_context(cafile=str(self.nats_ca())),
        )

    async def _exit_code(self, pid: int, seconds: float) -> int:
        async with asyncio.timeout(seconds):
            while True:
                if (code := self._cluster.guard.exit_code(pid)) is not None:
                    return code
                await asyncio.sleep(0.05)

    def _assert_runs(self, name: str) -> None:
        code = self._cluster.guard.exit_code(self._pids[name])
        assert code is None, f"{name} ended with code {code}:\n{self.tail(name)}"

    def _run(
        self, program: Program, command: tuple[str, ...], environment: Mapping[str, str], log: str | None = None
    ) -> int:
        # The official image of Prometheus has its name as entry point.
        arguments = ("prometheus", *command) if command[0].startswith("--config.file") else command
        arguments = tuple(self._translated(argument, program) for argument in arguments)
        if arguments[0] == "prometheus":
            arguments += (f"--web.listen-address=127.0.0.1:{self._ports[9090]}",)
        return self._cluster.guard.start(
            arguments,
            log=self.path / log if log else self.log(program.name),
            directory=self.path,
            environment=environment,
        )

    async def _prepare(self, program: Program) -> dict[str, str]:
        """Creates the mounts; returns the environment of the process."""
        environment = {}
        for name, value in program.environment.items():
            secret = _SECRET.search(value)
            environment[name] = (
                value.replace(secret[0], self._folder.passwords[secret[1]])
                if secret
                else self._translated(value, program)
            )
        for path, source in program.mounts.items():
            target = self._local_path(program, path)
            if source == SERVICE_ACCOUNT:
                token = await self._cluster.service_account_token(NAMESPACE, f"equipoise-{program.name}")
                environment |= self._cluster.in_cluster_environment
                environment["EQUIPOISE_KUBERNETES__SERVICE_ACCOUNT"] = str(token.parent)
            elif source == VOLUME:
                target.mkdir(parents=True, exist_ok=True)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(self._translated(self._content(source), program, ports=True))
        return environment | self._path_variable() | self._local_addresses(program)

    def _content(self, source: str) -> str:
        if source == KUBECONFIG:
            return self._cluster.kubeconfig.read_text()
        if source.startswith("secret:"):
            return self._folder.passwords[source.partition(":")[2]]
        return self._folder.files[source] if source in self._folder.files else (ROOT / source).read_text()

    def _local_addresses(self, program: Program) -> dict[str, str]:
        """Variables with local addresses, instead of names in a cluster or in compose."""
        if "EQUIPOISE_CONFIG" not in program.environment:
            return {}
        health = {
            f"EQUIPOISE_{name.upper()}__HEALTH": f"127.0.0.1:{self._ports[port]}"
            for name, port in _health_ports().items()
        }
        return health | {
            "EQUIPOISE_NATS__URL": self.url(NATS_PORT, "tls"),
            "EQUIPOISE_COLLECTOR__PROMETHEUS__URL": self._cluster.prometheus_url,
            "EQUIPOISE_SCORER__LISTEN": f"127.0.0.1:{self._ports[EXTENDER_PORT]}",
            "EQUIPOISE_BINDER__EVICT": str(self.evict).lower(),
        }

    def _path_variable(self) -> dict[str, str]:
        return {"PATH": f"{self._bin}:{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def _local_path(self, program: Program, path: str) -> Path:
        return self.path / program.name / path.lstrip("/")

    def _translated(self, text: str, program: Program, *, ports: bool = False) -> str:
        for path in sorted(program.mounts, key=len, reverse=True):
            text = re.sub(rf"(?<![\w/.]){re.escape(path)}(?![\w.])", str(self._local_path(program, path)), text)
        text = text.replace("--listen=:", "--listen=127.0.0.1:")
        pattern = r"(?<=127\.0\.0\.1:)(\d+)" + (r"|(?<=port: )(\d+)" if ports else "")
        return re.sub(pattern, lambda match: str(self._ports.get(int(match[0]), match[0])), text)


def _health_ports() -> dict[str, int]:
    """The default ports: no shipped configuration changes them."""
    sections = {name: section() for name, section in SERVICE_SETTINGS.items()}
    return {
        name: int(section.health.rpartition(":")[2])
        for name, section in sections.items()
        if isinstance(section, WithHealth)
    }
