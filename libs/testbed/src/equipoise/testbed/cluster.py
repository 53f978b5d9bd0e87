"""A throwaway real cluster: etcd, the control plane, kwok's fake kubelets, Prometheus, and optionally NATS."""

import asyncio
import json
import os
import secrets
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Self

from equipoise.testbed import audit
from equipoise.testbed.api import Api
from equipoise.testbed.binaries.build import Binaries, build
from equipoise.testbed.processes import configuration
from equipoise.testbed.processes.command_lines import (
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
    with_flags,
)
from equipoise.testbed.processes.configuration import Document, PrometheusConfiguration
from equipoise.testbed.processes.guard import Guard
from equipoise.testbed.processes.loopback import PortBlock, accepts, get, get_json, responds

START_SECONDS = 60.0
POLL_SECONDS = 0.02
LOG_LINES = 15


class ClusterError(RuntimeError):
    """A component does not start or has ended; the message includes the tail of its log."""


class Cluster:
    """A cluster for `with` or `async with`. Its processes end at the end of the block, or when this process ends."""

    def __init__(
        self,
        *,
        binaries: Binaries | None = None,
        scheduler: Document | None = None,
        prometheus: PrometheusConfiguration | None = None,
        nats: bool = False,
        nats_configuration: str = "",
        arguments: Mapping[str, Sequence[str]] | None = None,
        replaced: Mapping[str, Sequence[str]] | None = None,
        kwok: bool = True,
        address: str = "127.0.0.1",
        directory: Path | None = None,
    ) -> None:
        """`arguments` are added to the command line of a component: {"kube-apiserver": ["--v=4"]}.

        `replaced` are flags that replace flags of the same name. Without `kwok`, the caller starts the nodes and adds
        their job to `prometheus`. The API server and Prometheus listen on `address`. Without a `directory`, a temporary
        one is created and removed.
        """
        self._binaries = binaries
        self._scheduler = scheduler or {}
        self._prometheus = prometheus or PrometheusConfiguration()
        self._with_nats = nats
        self._nats_configuration = nats_configuration
        self._arguments = dict(arguments or {})
        self._replaced = dict(replaced or {})
        self._with_kwok = kwok
        self._address = address
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._chosen_directory = directory
        self._command_lines: dict[str, CommandLine] = {}
        self._prefixes: dict[str, Sequence[str | Path]] = {}
        self._pids: dict[str, int] = {}
        self._generation = 0
        self._tokens = {user: secrets.token_hex(16) for user in configuration.USERS}

    # -- start and stop --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start all components, which takes some seconds. A failed start stops them again.

        If Prometheus is not built yet, it is not started; `restart` can start it later.
        """
        binaries = self._binaries or build()
        if self._chosen_directory is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="equipoise-testbed-", ignore_cleanup_errors=True)
        self.directory = self._chosen_directory or Path(self._temporary.name if self._temporary else "")
        self._guard = Guard()
        self._port_block = PortBlock()
        try:
            self._ports = {name: self._port_block.take() for name in PORTS}
            self._write_files()
            self._command_lines = {
                name: with_flags(line, self._replaced.get(name, ()))
                for name, line in command_lines(
                    binaries,
                    self.directory,
                    self._ports,
                    nats=self._with_nats,
                    kwok=self._with_kwok,
                    address=self._address,
                ).items()
            }
            self._launch(ETCD)
            if self._with_nats:
                self._launch(NATS)
            self._await_ready(ETCD)
            self._launch(API_SERVER)
            self._await(API_SERVER, self._api_responds)
            for name in (CONTROLLER_MANAGER, KWOK, SCHEDULER):
                if name in self._command_lines:
                    self._launch(name)
            if binaries.prometheus.exists():
                self._launch(PROMETHEUS)
            self._await_ready(API_SERVER)
            if self._guard.exit_code(self._pids[CONTROLLER_MANAGER]) is not None:
                self._launch(CONTROLLER_MANAGER)  # it waits no longer than ten seconds for the roles of the API server
            for name in self._pids:
                self._await_ready(name)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Send SIGKILL to all components, clients first."""
        self._guard.close()
        self._port_block.release()
        if self._temporary is not None:
            self._temporary.cleanup()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        starting = asyncio.ensure_future(asyncio.to_thread(self.start))
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            # A thread cannot be canceled: wait for it, then stop the cluster.
            await asyncio.wait([starting])
            if starting.exception() is None:
                await asyncio.to_thread(self.stop)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.stop)

    # -- addresses and files ---------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The URL of the API server."""
        return f"https://127.0.0.1:{self._ports[API_SERVER]}"

    @property
    def etcd_url(self) -> str:
        return f"http://127.0.0.1:{self._ports[ETCD]}"

    @property
    def ca_file(self) -> Path:
        return self.directory / "certs" / "apiserver.crt"

    @property
    def admin_token(self) -> str:
        return self._tokens[configuration.ADMIN]

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of the administrator."""
        return kubeconfig_file(self.directory, configuration.ADMIN)

    @property
    def prometheus_url(self) -> str:
        return f"http://127.0.0.1:{self._ports[PROMETHEUS]}"

    @property
    def nats_url(self) -> str:
        return f"nats://127.0.0.1:{self._ports[NATS]}"

    @property
    def scheduler_url(self) -> str:
        """kube-scheduler's /metrics, without authentication and with a self-signed certificate."""
        return f"https://127.0.0.1:{self._ports[SCHEDULER]}"

    @property
    def audit_log(self) -> Path:
        return self.directory / "audit.log"

    @property
    def components(self) -> tuple[str, ...]:
        """The names of the components, for `log`, `pid`, `kill` and `restart`."""
        return tuple(self._command_lines)

    @property
    def guard(self) -> Guard:
        """The guard of the cluster. It starts further programs, which end with this process."""
        return self._guard

    def log(self, component: str) -> Path:
        return self.directory / f"{component}.log"

    def pid(self, component: str) -> int:
        return self._pids[component]

    def free_port(self) -> int:
        """A loopback port for the caller, which no other cluster uses."""
        return self._port_block.take()

    def start_api_server(self, name: str, etcd_url: str) -> str:
        """Start another API server on the same data and audit log; returns its address. `kill` ends it."""
        port = self._port_block.take()
        shared_words = [
            word
            for word in self._command_lines[API_SERVER]
            if not str(word).startswith(("--etcd-servers=", "--secure-port="))
        ]
        self._command_lines[name] = [*shared_words, f"--etcd-servers={etcd_url}", f"--secure-port={port}"]
        self._arguments[name] = self._arguments.get(API_SERVER, ())
        self._launch(name)
        url = f"https://127.0.0.1:{port}"
        self._await(name, lambda: responds(f"{url}/readyz", token=self.admin_token, ca_file=self.ca_file))
        return url

    # -- operations ------------------------------------------------------------------------------------------

    def kill(self, component: str, number: int = signal.SIGKILL) -> None:
        """Send a signal to a component, and wait for its end if the signal is SIGKILL."""
        if number == signal.SIGKILL:
            self._guard.stop(self.pid(component), number=number)
        else:
            self._guard.send(self.pid(component), number)

    def end(self, component: str) -> None:
        """Kill a component that is not needed until `restart`. For `check`, that is no error."""
        if component in self._pids:
            self.kill(component)
            del self._pids[component]

    def restart(self, component: str) -> None:
        """Kill a component if it runs, start it with the same port and data, and wait until it is ready."""
        self.end(component)
        self._launch(component)
        self._await_ready(component)

    def prefix(self, component: str, words: Sequence[str | Path]) -> None:
        """Put words before the command line of a component, such as `prlimit`, from its next start on."""
        self._prefixes[component] = words

    def replace_program(self, component: str, program: Path) -> None:
        """Run another program with the same arguments as a component, from its next start on."""
        self._command_lines[component][0] = program

    def check(self) -> None:
        """Raise ClusterError if a component has ended, by itself or by `kill`."""
        for name, pid in self._pids.items():
            if (code := self._guard.exit_code(pid)) is not None:
                raise ClusterError(f"{name} has ended with code {code}\n{self._tail(name)}")

    def restart_scheduler(self, scheduler: Document) -> None:
        """Restart kube-scheduler with another configuration."""
        self._scheduler = scheduler
        self._write_scheduler()
        self.restart(SCHEDULER)

    def configure_prometheus(self, prometheus: PrometheusConfiguration) -> None:
        """Reload Prometheus if it runs; its data remain."""
        self._prometheus = prometheus
        self._write_prometheus()
        if PROMETHEUS in self._pids:
            get(f"{self.prometheus_url}/-/reload", method="POST")

    def evictions(self) -> list[audit.LoggedEviction]:
        """Evictions in the audit log, including dry runs and refused ones."""
        return audit.evictions(self.audit_log)

    def bindings(self) -> list[audit.Binding]:
        """Bindings in the audit log."""
        return audit.bindings(self.audit_log)

    def api(self) -> Api:
        """A client for many requests over one connection pool: `async with cluster.api() as api`."""
        return Api(self.url, self.ca_file, self.admin_token)

    async def request(self, method: str, path: str, body: Any = None, *, token: str | None = None) -> Any:
        async with self.api() as api:
            return await api.request(method, path, body, token=token)

    async def apply(self, documents: Iterable[Document]) -> list[Any]:
        """Server-side apply of any manifests; returns the objects."""
        async with self.api() as api:
            return await api.apply(documents)

    async def add_nodes(self, nodes: Iterable[Document]) -> None:
        """Apply nodes, and wait until they are schedulable and Prometheus, if it runs, scrapes them.

        Otherwise the first node would get all pods.
        """
        async with self.api() as api:
            names = {node["metadata"]["name"] for node in await api.apply(nodes)}
            await api.wait(
                "/api/v1/nodes",
                lambda nodes: names <= {node["metadata"]["name"] for node in nodes["items"] if _usable(node)},
                what=f"{len(names)} nodes are ready",
            )
        await asyncio.to_thread(self._discover, names)

    async def wait(self, path: str, condition: Callable[[Any], bool], *, timeout: float = 60.0, what: str = "") -> Any:
        async with self.api() as api:
            return await api.wait(path, condition, timeout=timeout, what=what)

    async def service_account_token(self, namespace: str, name: str, *, seconds: int = 24 * 3600) -> Path:
        """The file `token` in a directory like the one mounted into a pod, with `ca.crt` and `namespace`."""
        created = await self.request(
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
        _write(directory / "token", created["status"]["token"])
        _write(directory / "ca.crt", self.ca_file.read_text())
        _write(directory / "namespace", namespace)
        return directory / "token"

    @property
    def in_cluster_environment(self) -> dict[str, str]:
        """The API server's variables in the environment of a pod."""
        return {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self._ports[API_SERVER]),
        }

    # -- implementation --------------------------------------------------------------------------------------

    def _discover(self, names: Iterable[str]) -> None:
        """Wait until kwok serves the metrics of these nodes, and let Prometheus discover them."""
        expected = {f"/metrics/nodes/{name}/metrics/resource" for name in names}
        deadline = time.monotonic() + START_SECONDS
        while True:
            targets = get_json(f"{self.kubelet_url}/discovery/prometheus")
            if expected <= {target["labels"]["__metrics_path__"] for target in targets}:
                break
            if time.monotonic() > deadline:
                raise ClusterError(f"kwok does not serve {len(expected)} new nodes\n{self._tail(KWOK)}")
            time.sleep(POLL_SECONDS)
        self._generation += 1  # makes Prometheus discover the nodes at once
        self.configure_prometheus(self._prometheus)

    def _launch(self, name: str) -> None:
        self._pids[name] = self._guard.start(
            [*self._prefixes.get(name, ()), *self._command_lines[name], *self._arguments.get(name, ())],
            log=self.log(name),
            directory=self.directory,
            environment={"KWOK_WORKDIR": str(self.directory)},
        )

    def _await_ready(self, name: str) -> None:
        self._await(name, lambda: self._ready(name))

    def _await(self, name: str, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            # Check the process after the condition: another process may use its port and respond.
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
                return responds(f"{self.url}/readyz", token=self.admin_token, ca_file=self.ca_file)
            case "kube-scheduler":  # Kubernetes 1.30 has no /readyz
                return responds(f"{self.scheduler_url}/readyz", instead_of_404=f"{self.scheduler_url}/healthz")
            case "kwok":
                return responds(f"{self.kubelet_url}/healthz")
            case "prometheus":
                return responds(f"{self.prometheus_url}/-/ready")
            case "etcd":
                return responds(f"http://127.0.0.1:{self._ports[ETCD]}/readyz")
            case "nats-server":
                return accepts(self._ports[NATS])
            case _:
                return True  # kube-controller-manager has no port

    @property
    def kubelet_url(self) -> str:
        """kwok's server, which is the kubelet of all nodes."""
        return f"http://127.0.0.1:{self._ports[KWOK]}"

    def _api_responds(self) -> bool:
        """Ready for administrators. The roles of other users follow about a second later."""
        hooks = ("rbac/bootstrap-roles", "scheduling/bootstrap-system-priority-classes")
        excluded = "&".join(f"exclude=poststarthook/{hook}" for hook in hooks)
        return responds(f"{self.url}/readyz?{excluded}", token=self.admin_token, ca_file=self.ca_file)

    def _tail(self, name: str) -> str:
        log = self.log(name)
        lines = log.read_text(errors="replace").splitlines()[-LOG_LINES:] if log.exists() else []
        return "\n".join([f"the last lines of {log}:", *(f"  {line[:400]}" for line in lines)])

    def _write_files(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        _write(self.directory / "audit-policy.yaml", configuration.audit_policy())
        _write(self.directory / "service-account.key", configuration.signing_key())
        _write(self.directory / "tokens.csv", configuration.token_file(self._tokens))
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
            self._prometheus,
            kwok_port=self._ports[KWOK] if self._with_kwok else None,
            rule_file=str(rules),
            generation=self._generation,
        )
        _write(self.directory / "prometheus.yaml", text)


def _usable(node: Document) -> bool:
    conditions = {item["type"]: item["status"] for item in node["status"].get("conditions", [])}
    taints = {taint["key"] for taint in node["spec"].get("taints", [])}
    return conditions.get("Ready") == "True" and "node.kubernetes.io/not-ready" not in taints


def _write(path: Path, content: str | Document) -> None:
    """Write atomically, readable by the owner only: many files contain tokens."""
    new = path.with_name(f".{path.name}.new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(content if isinstance(content, str) else json.dumps(content, indent=1))
    new.replace(path)
