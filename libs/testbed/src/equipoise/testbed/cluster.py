"""A throwaway real cluster: etcd, the control plane, kwok's fake kubelets, Prometheus, and NATS if asked."""

import asyncio
import os
import secrets
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from equipoise.testbed import audit, configuration
from equipoise.testbed.api import Api
from equipoise.testbed.binaries import Binaries
from equipoise.testbed.build import build
from equipoise.testbed.commands import (
    API_SERVER,
    CONTROLLER_MANAGER,
    ETCD,
    KWOK,
    NATS,
    PORTS,
    PROMETHEUS,
    SCHEDULER,
    CommandLine,
    command_lines,
    kubeconfig_file,
)
from equipoise.testbed.configuration import Document, PrometheusConfiguration
from equipoise.testbed.guard import Guard
from equipoise.testbed.loopback import accepts, answers, get, get_json
from equipoise.testbed.ports import PortBlock

START_SECONDS = 60.0
POLL_SECONDS = 0.02
LOG_LINES = 15


class ClusterError(RuntimeError):
    """A part of the cluster does not start or has died; the message ends with the tail of its log."""


class Cluster:
    """Enter it with `with` or `async with`; everything is gone when it is left, or when this process dies."""

    def __init__(
        self,
        *,
        binaries: Binaries | None = None,
        scheduler: Document | None = None,
        prometheus: PrometheusConfiguration | None = None,
        nats: bool = False,
        nats_configuration: str = "",
        arguments: Mapping[str, Sequence[str]] | None = None,
        directory: Path | None = None,
    ) -> None:
        """`arguments` are added to the command line of a part: {"kube-apiserver": ["--v=4"]}.

        Without a `directory` a temporary one is made and removed.
        """
        self._binaries = binaries
        self._scheduler = scheduler or {}
        self._prometheus = prometheus or PrometheusConfiguration()
        self._with_nats = nats
        self._nats_configuration = nats_configuration
        self._arguments = dict(arguments or {})
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._chosen_directory = directory
        self._command_lines: dict[str, CommandLine] = {}
        self._pids: dict[str, int] = {}
        self._generation = 0
        self._tokens = {user: secrets.token_hex(16) for user in configuration.USERS}

    # -- life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Blocks for some seconds; leaves nothing behind when it fails."""
        binaries = self._binaries or build()
        if self._chosen_directory is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="equipoise-testbed-", ignore_cleanup_errors=True)
        self.directory = self._chosen_directory or Path(self._temporary.name if self._temporary else "")
        self._guard = Guard()
        self._port_block = PortBlock()
        try:
            self._ports = {name: self._port_block.take() for name in PORTS}
            self._write_files()
            self._command_lines = command_lines(binaries, self.directory, self._ports, nats=self._with_nats)
            self._launch(ETCD)
            if self._with_nats:
                self._launch(NATS)
            self._await_ready(ETCD)
            self._launch(API_SERVER)
            self._await(API_SERVER, self._api_answers)
            for name in (CONTROLLER_MANAGER, KWOK, SCHEDULER, PROMETHEUS):
                self._launch(name)
            for name in self._pids:
                self._await_ready(name)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """SIGKILL to all, clients first: nothing here is worth a graceful end."""
        self._guard.close()
        self._port_block.release()
        if self._temporary is not None:
            self._temporary.cleanup()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        starting = asyncio.ensure_future(asyncio.to_thread(self.start))
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            # A thread cannot be cancelled: let it finish, then undo what it did.
            await asyncio.wait([starting])
            if starting.exception() is None:
                await asyncio.to_thread(self.stop)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    # -- what is where ---------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The API server."""
        return f"https://127.0.0.1:{self._ports[API_SERVER]}"

    @property
    def ca_file(self) -> Path:
        return self.directory / "certs" / "apiserver.crt"

    @property
    def admin_token(self) -> str:
        return self._tokens[configuration.ADMIN]

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return kubeconfig_file(self.directory, configuration.ADMIN)

    @property
    def prometheus_url(self) -> str:
        return f"http://127.0.0.1:{self._ports[PROMETHEUS]}"

    @property
    def nats_url(self) -> str:
        return f"nats://127.0.0.1:{self._ports[NATS]}"

    @property
    def scheduler_url(self) -> str:
        """The scheduler's own /metrics, without authentication; its certificate is its own."""
        return f"https://127.0.0.1:{self._ports[SCHEDULER]}"

    @property
    def audit_log(self) -> Path:
        return self.directory / "audit.log"

    @property
    def parts(self) -> tuple[str, ...]:
        """Names for `log`, `pid`, `kill`, `restart`."""
        return tuple(self._command_lines)

    @property
    def guard(self) -> Guard:
        """Starts further programs that must not outlive this process."""
        return self._guard

    def log(self, part: str) -> Path:
        return self.directory / f"{part}.log"

    def pid(self, part: str) -> int:
        return self._pids[part]

    def free_port(self) -> int:
        """A loopback port for something of the caller's, which no other cluster will take."""
        return self._port_block.take()

    # -- what can be done to it ------------------------------------------------------------------------------

    def kill(self, part: str, number: int = signal.SIGKILL) -> None:
        """SIGKILL and wait; other signals are only sent, so that SIGSTOP makes a part hang."""
        if number == signal.SIGKILL:
            self._guard.stop(self.pid(part), number=number)
        else:
            self._guard.send(self.pid(part), number)

    def restart(self, part: str) -> None:
        """Kill what still runs, start again on the same port and data, wait until it is ready."""
        self.kill(part)
        self._launch(part)
        self._await_ready(part)

    def check(self) -> None:
        """ClusterError when a part has died by itself or by `kill`."""
        for name, pid in self._pids.items():
            if (code := self._guard.exit_code(pid)) is not None:
                raise ClusterError(f"{name} has ended with code {code}\n{self._tail(name)}")

    def restart_scheduler(self, scheduler: Document) -> None:
        self._scheduler = scheduler
        self._write_scheduler()
        self.restart(SCHEDULER)

    def configure_prometheus(self, prometheus: PrometheusConfiguration) -> None:
        """Reloads it; its data stay."""
        self._prometheus = prometheus
        self._write_prometheus()
        get(f"{self.prometheus_url}/-/reload", method="POST")

    def evictions(self) -> list[audit.Eviction]:
        """What the audit log knows, dry runs and refusals included."""
        return audit.evictions(self.audit_log)

    def bindings(self) -> list[audit.Binding]:
        """Where the audit log saw pods go."""
        return audit.bindings(self.audit_log)

    def api(self) -> Api:
        """`async with cluster.api() as api` for many requests over one pool."""
        return Api(self.url, self.ca_file, self.admin_token)

    async def request(self, method: str, path: str, body: Any = None, *, token: str | None = None) -> Any:
        async with self.api() as api:
            return await api.request(method, path, body, token=token)

    async def apply(self, documents: Iterable[Document]) -> list[Any]:
        """Server-side apply of any manifests; the objects as they are now."""
        async with self.api() as api:
            return await api.apply(documents)

    async def add_nodes(self, nodes: Iterable[Document]) -> None:
        """Apply, wait until pods may go there and Prometheus scrapes them: else the first node takes all pods."""
        async with self.api() as api:
            names = {node["metadata"]["name"] for node in await api.apply(nodes)}
            await api.wait(
                "/api/v1/nodes",
                lambda seen: names <= {node["metadata"]["name"] for node in seen["items"] if _usable(node)},
                what=f"{len(names)} nodes are ready",
            )
        await asyncio.to_thread(self._discover, names)

    async def wait(self, path: str, condition: Callable[[Any], bool], *, timeout: float = 60.0, what: str = "") -> Any:
        async with self.api() as api:
            return await api.wait(path, condition, timeout=timeout, what=what)

    async def service_account_token(self, namespace: str, name: str, *, seconds: int = 24 * 3600) -> Path:
        """The file `token` in a directory laid out like the one a pod finds, beside `ca.crt` and `namespace`."""
        answer = await self.request(
            "POST",
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": seconds},
            },
        )
        directory = self.directory / "serviceaccounts" / namespace / name
        directory.mkdir(parents=True, exist_ok=True)
        _write(directory / "token", answer["status"]["token"])
        _write(directory / "ca.crt", self.ca_file.read_text())
        _write(directory / "namespace", namespace)
        return directory / "token"

    @property
    def in_cluster_environment(self) -> dict[str, str]:
        """What a pod's environment tells about the API server."""
        return {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self._ports[API_SERVER]),
        }

    # -- how -------------------------------------------------------------------------------------------------

    def _discover(self, names: Iterable[str]) -> None:
        wanted = {f"/metrics/nodes/{name}/metrics/resource" for name in names}
        deadline = time.monotonic() + START_SECONDS
        while True:
            targets = get_json(f"{self._kwok_url}/discovery/prometheus")
            if wanted <= {target["labels"]["__metrics_path__"] for target in targets}:
                break
            if time.monotonic() > deadline:
                raise ClusterError(f"kwok does not serve {len(wanted)} new nodes\n{self._tail(KWOK)}")
            time.sleep(POLL_SECONDS)
        self._generation += 1
        self.configure_prometheus(self._prometheus)

    def _launch(self, name: str) -> None:
        self._pids[name] = self._guard.start(
            [*self._command_lines[name], *self._arguments.get(name, ())],
            log=self.log(name),
            directory=self.directory,
            environment={"KWOK_WORKDIR": str(self.directory)},
        )

    def _await_ready(self, name: str) -> None:
        self._await(name, lambda: self._ready(name))

    def _await(self, name: str, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            # Alive before and after: another process may hold the port and answer in its place.
            ready = condition()
            code = self._guard.exit_code(self._pids[name])
            if code is not None:
                raise ClusterError(f"{name} ended with code {code} while starting\n{self._tail(name)}")
            if ready:
                return
            if time.monotonic() > deadline:
                raise ClusterError(f"{name} is not ready after {START_SECONDS:g} s\n{self._tail(name)}")
            time.sleep(POLL_SECONDS)

    def _ready(self, name: str) -> bool:
        match name:
            case "kube-apiserver":
                return answers(f"{self.url}/readyz", token=self.admin_token, ca_file=self.ca_file)
            case "kube-scheduler":
                return answers(f"{self.scheduler_url}/readyz")
            case "kwok":
                return answers(f"{self._kwok_url}/healthz")
            case "prometheus":
                return answers(f"{self.prometheus_url}/-/ready")
            case "etcd":
                return answers(f"http://127.0.0.1:{self._ports[ETCD]}/readyz")
            case "nats-server":
                return accepts(self._ports[NATS])
            case _:
                return True  # the controller-manager has no port; it works or it ends

    @property
    def _kwok_url(self) -> str:
        return f"http://127.0.0.1:{self._ports[KWOK]}"

    def _api_answers(self) -> bool:
        """Enough for its administrators, a second before the roles of everyone else are made."""
        hooks = ("rbac/bootstrap-roles", "scheduling/bootstrap-system-priority-classes")
        excluded = "&".join(f"exclude=poststarthook/{hook}" for hook in hooks)
        return answers(f"{self.url}/readyz?{excluded}", token=self.admin_token, ca_file=self.ca_file)

    def _tail(self, name: str) -> str:
        log = self.log(name)
        lines = log.read_text(errors="replace").splitlines()[-LOG_LINES:] if log.exists() else []
        return "\n".join([f"the last lines of {log}:", *(f"  {line[:400]}" for line in lines)])

    def _write_files(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        _write(self.directory / "audit-policy.yaml", configuration.audit_policy())
        _write(self.directory / "service-account.key", configuration.signing_key())
        _write(
            self.directory / "tokens.csv",
            configuration.token_file(self._tokens),
        )
        for user, token in self._tokens.items():
            text = configuration.kubeconfig(server=self.url, ca_file=str(self.ca_file), user=user, token=token)
            _write(kubeconfig_file(self.directory, user), text)
        kwok = resources.files("equipoise.testbed").joinpath("kwok.yaml").read_text()
        _write(self.directory / "kwok.yaml", kwok)
        _write(self.directory / "nats.conf", self._nats_configuration)
        self._write_scheduler()
        self._write_prometheus()

    def _write_scheduler(self) -> None:
        text = configuration.scheduler(self._scheduler, str(kubeconfig_file(self.directory, configuration.SCHEDULER)))
        _write(self.directory / "scheduler.yaml", text)

    def _write_prometheus(self) -> None:
        rules = self.directory / "rules.yaml"
        _write(rules, configuration.rule_file(self._prometheus))
        text = configuration.prometheus(
            self._prometheus, kwok_port=self._ports[KWOK], rule_file=str(rules), generation=self._generation
        )
        _write(self.directory / "prometheus.yaml", text)


def _usable(node: Document) -> bool:
    conditions = {item["type"]: item["status"] for item in node["status"].get("conditions", [])}
    taints = {taint["key"] for taint in node["spec"].get("taints", [])}
    return conditions.get("Ready") == "True" and "node.kubernetes.io/not-ready" not in taints


def _write(path: Path, text: str) -> None:
    """Replaced in one step, readable by its owner only: many of these hold tokens."""
    new = path.with_name(f".{path.name}.new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    new.replace(path)
