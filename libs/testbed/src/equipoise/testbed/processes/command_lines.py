"""The command line of each component of a cluster, tested with Kubernetes 1.37."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from equipoise.runtime.bus.dev_server import nats_server_binary
from equipoise.testbed.binaries.build import Binaries
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
    binaries: Binaries, directory: Path, ports: Mapping[str, int], *, nats: bool, kwok: bool, address: str
) -> dict[str, CommandLine]:
    """The command lines by component, in the order in which they start. API server and Prometheus listen on
    `address`."""
    etcd = f"http://127.0.0.1:{ports[ETCD]}"
    peer = f"http://127.0.0.1:{ports[ETCD_PEER]}"
    lines: dict[str, CommandLine] = {
        ETCD: [
            binaries.etcd,
            f"--data-dir={directory / 'etcd'}",
            "--unsafe-no-fsync",
            # With a single member, elections need no long timeouts.
            "--heartbeat-interval=10",
            "--election-timeout=100",
            f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--log-level=warn",
        ],
        API_SERVER: [
            binaries.kube_apiserver,
            f"--etcd-servers={etcd}",
            f"--bind-address={address}",
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
            # Otherwise pods wait for their default ServiceAccount and mount tokens that no kubelet reads.
            "--disable-admission-plugins=ServiceAccount",
            f"--audit-policy-file={directory / 'audit-policy.yaml'}",
            f"--audit-log-path={directory / 'audit.log'}",
            "--audit-log-maxsize=100000",  # no rotation: all events are in one file
        ],
        CONTROLLER_MANAGER: [
            binaries.kube_controller_manager,
            f"--kubeconfig={kubeconfig_file(directory, configuration.CONTROLLER_MANAGER)}",
            "--leader-elect=false",
            "--secure-port=0",
            f"--service-account-private-key-file={directory / 'service-account.key'}",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        ],
        KWOK: [
            binaries.kwok,
            f"--kubeconfig={kubeconfig_file(directory, configuration.KUBELET)}",
            f"--config={directory / 'kwok.yaml'}",
            "--manage-all-nodes",
            "--v=error",  # otherwise it logs a warning for each node without pods at each scrape
            "--node-ip=127.0.0.1",
            f"--server-address=127.0.0.1:{ports[KWOK]}",
            "--node-lease-duration-seconds=40",
        ],
        SCHEDULER: [
            binaries.kube_scheduler,
            f"--config={directory / 'scheduler.yaml'}",
            "--bind-address=127.0.0.1",
            f"--secure-port={ports[SCHEDULER]}",
            "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
        ],
        PROMETHEUS: [
            binaries.prometheus,
            f"--config.file={directory / 'prometheus.yaml'}",
            f"--storage.tsdb.path={directory / 'prometheus'}",
            f"--web.listen-address={address}:{ports[PROMETHEUS]}",
            "--web.enable-lifecycle",
            "--scrape.discovery-reload-interval=100ms",
            "--log.level=warn",
        ],
    }
    if not kwok:
        del lines[KWOK]
    if nats:
        lines[NATS] = [
            nats_server_binary(),
            f"--config={directory / 'nats.conf'}",
            "--addr=127.0.0.1",
            f"--port={ports[NATS]}",
            "--jetstream",
            f"--store_dir={directory / 'jetstream'}",
        ]
    return lines


def with_flags(line: CommandLine, flags: Sequence[str]) -> CommandLine:
    """The command line with `flags` (`--name=value`), which replace flags of the same name."""
    names = {flag.partition("=")[0] for flag in flags}
    return [*(word for word in line if str(word).partition("=")[0] not in names), *flags]
