"""The command line of each component of a cluster, tested with Kubernetes 1.36."""

from collections.abc import Mapping
from pathlib import Path

from equipoise.runtime.bus.dev_server import nats_server_binary
from equipoise.testbed.binaries.paths import Binaries
from equipoise.testbed.processes import configuration

ETCD = "etcd"
ETCD_PEER = "etcd-peer"
API_SERVER = "kube-apiserver"
CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"
KWOK = "kwok"
PROMETHEUS = "prometheus"
NATS = "nats-server"

PORTS = (ETCD, ETCD_PEER, API_SERVER, SCHEDULER, KWOK, PROMETHEUS, NATS)

CommandLine = list[str | Path]


def kubeconfig_file(directory: Path, user: str) -> Path:
    return directory / f"{user.removeprefix('system:')}.kubeconfig"


def command_lines(
    binaries: Binaries, directory: Path, ports: Mapping[str, int], *, nats: bool
) -> dict[str, CommandLine]:
    """In the order in which they start."""
    lines: dict[str, CommandLine] = {
        ETCD: [binaries.etcd, *_etcd(directory, ports)],
        API_SERVER: [binaries.kube_apiserver, *_api_server(directory, ports)],
        CONTROLLER_MANAGER: [binaries.kube_controller_manager, *_controller_manager(directory)],
        KWOK: [binaries.kwok, *_kwok(directory, ports)],
        SCHEDULER: [binaries.kube_scheduler, *_scheduler(directory, ports)],
        PROMETHEUS: [binaries.prometheus, *_prometheus(directory, ports)],
    }
    if nats:
        lines[NATS] = [nats_server_binary(), *_nats(directory, ports)]
    return lines


def _etcd(directory: Path, ports: Mapping[str, int]) -> list[str]:
    client = f"http://127.0.0.1:{ports[ETCD]}"
    peer = f"http://127.0.0.1:{ports[ETCD_PEER]}"
    return [
        f"--data-dir={directory / 'etcd'}",
        "--unsafe-no-fsync",
        # A single member: elections need no long timeouts.
        "--heartbeat-interval=10",
        "--election-timeout=100",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--log-level=warn",
    ]


def _api_server(directory: Path, ports: Mapping[str, int]) -> list[str]:
    return [
        f"--etcd-servers=http://127.0.0.1:{ports[ETCD]}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={ports[API_SERVER]}",
        f"--cert-dir={directory / 'certs'}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--endpoint-reconciler-type=none",  # an Endpoints object must not contain a loopback address
        "--authorization-mode=RBAC",
        f"--token-auth-file={directory / 'tokens.csv'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={directory / 'service-account.key'}",
        f"--service-account-signing-key-file={directory / 'service-account.key'}",
        # Otherwise pods wait for the default ServiceAccount of their namespace and mount tokens that no kubelet reads.
        "--disable-admission-plugins=ServiceAccount",
        f"--audit-policy-file={directory / 'audit-policy.yaml'}",
        f"--audit-log-path={directory / 'audit.log'}",
        "--audit-log-maxsize=100000",  # no rotation: all events are in one file
    ]


def _controller_manager(directory: Path) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig_file(directory, configuration.CONTROLLER_MANAGER)}",
        "--leader-elect=false",
        "--secure-port=0",
        f"--service-account-private-key-file={directory / 'service-account.key'}",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]


def _kwok(directory: Path, ports: Mapping[str, int]) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig_file(directory, configuration.KUBELET)}",
        f"--config={directory / 'kwok.yaml'}",
        "--manage-all-nodes",
        "--v=error",  # otherwise it logs a warning for each node without pods at each scrape
        "--node-ip=127.0.0.1",
        f"--server-address=127.0.0.1:{ports[KWOK]}",
        "--node-lease-duration-seconds=40",
    ]


def _scheduler(directory: Path, ports: Mapping[str, int]) -> list[str]:
    return [
        f"--config={directory / 'scheduler.yaml'}",
        "--bind-address=127.0.0.1",
        f"--secure-port={ports[SCHEDULER]}",
        "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
    ]


def _prometheus(directory: Path, ports: Mapping[str, int]) -> list[str]:
    return [
        f"--config.file={directory / 'prometheus.yaml'}",
        f"--storage.tsdb.path={directory / 'prometheus'}",
        f"--web.listen-address=127.0.0.1:{ports[PROMETHEUS]}",
        "--web.enable-lifecycle",
        "--scrape.discovery-reload-interval=100ms",
        "--log.level=warn",
    ]


def _nats(directory: Path, ports: Mapping[str, int]) -> list[str]:
    return [
        f"--config={directory / 'nats.conf'}",
        "--addr=127.0.0.1",
        f"--port={ports[NATS]}",
        "--jetstream",
        f"--store_dir={directory / 'jetstream'}",
    ]
