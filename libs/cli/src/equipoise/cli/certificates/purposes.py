"""What certificates are created for: names, files, and how they are installed."""

import ipaddress
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, kw_only=True)
class Secret:
    """A Secret with a certificate, its key, and the certificate of the CA."""

    name: str
    pair: str
    title: str

    def command(self, folder: Path) -> str:
        """The command that creates or replaces the Secret."""
        files = {"ca.crt": "ca.crt", "tls.crt": f"{self.pair}.crt", "tls.key": f"{self.pair}.key"}
        sources = " ".join(f"--from-file={key}={shlex.quote(str(folder / file))}" for key, file in files.items())
        return (
            f"  kubectl -n equipoise-system create secret generic {self.name} \\\n"
            f"    {sources} \\\n"
            "    --dry-run=client -o yaml | kubectl apply -f -"
        )


@dataclass(frozen=True, kw_only=True)
class Purpose:
    """A server with its clients. Each purpose has a CA of its own, because its clients trust everything it signs."""

    ca: str
    server: str
    names: tuple[str, ...]
    """DNS names of the server."""

    addresses: tuple[Address, ...] = ()
    client: str | None = None
    """None: clients have no certificate."""

    secrets: tuple[Secret, ...]
    remarks: tuple[str, ...]
    """Printed after the commands."""

    @property
    def files(self) -> tuple[str, ...]:
        pairs = ("ca", "server") if self.client is None else ("ca", "server", "client")
        return tuple(f"{pair}.{kind}" for pair in pairs for kind in ("crt", "key"))

    def next_steps(self, folder: Path) -> str:
        commands = (line for secret in self.secrets for line in (secret.title, secret.command(folder)))
        return "\n".join([*commands, *self.remarks])


EXTENDER = Purpose(
    ca="equipoise extender CA",
    server="equipoise-scorer",
    names=(
        "equipoise-scorer.equipoise-system.svc",
        "equipoise-scorer.equipoise-system.svc.cluster.local",
        "equipoise-scorer.equipoise-system",
        "equipoise-scorer",
    ),
    client="kube-scheduler",
    secrets=(
        Secret(
            name="equipoise-extender-tls",
            pair="server",
            title="Install the scorer's certificate (running scorers with TLS reload it within two minutes):",
        ),
        Secret(
            name="equipoise-extender-client",
            pair="client",
            title="Install kube-scheduler's certificate (it reads its files at its start):",
        ),
    ),
    remarks=(
        "For a kube-scheduler on the host, copy ca.crt, client.crt (as tls.crt) and client.key (as tls.key) to",
        "/etc/equipoise/extender instead.",
        "",
        "Keep ca.key outside of the cluster: certificates of this CA give access to the scorer.",
        "--force renews both certificates with it.",
    ),
)
"""The names are those of the Service in k8s/base/scorer.yaml."""

NATS = Purpose(
    ca="equipoise NATS CA",
    server="equipoise-nats",
    names=(
        "nats.equipoise-system.svc",
        "nats.equipoise-system.svc.cluster.local",
        "nats.equipoise-system",
        "nats",
        "localhost",
    ),
    addresses=(ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1")),
    secrets=(
        Secret(
            name="equipoise-nats-tls",
            pair="server",
            title="Install the certificate of NATS, and that of its CA, which the services verify it with:",
        ),
    ),
    remarks=(
        "If NATS is running, let it read the new certificate when the Secret has reached its pod (about a minute):",
        "  kubectl -n equipoise-system exec nats-0 -- kill -HUP 1",
        "",
        "Keep ca.key outside of the cluster: with it, somebody in the network can pass for NATS.",
        "--force renews the certificate with it.",
    ),
)
"""The names are those of the Service in k8s/base/nats.yaml and in docker-compose.yml, and of a port-forward."""

HINTS_WEBHOOK = Purpose(
    ca="equipoise hints webhook CA",
    server="equipoise-hints-webhook",
    names=(
        "equipoise-hints-webhook.equipoise-system.svc",
        "equipoise-hints-webhook.equipoise-system.svc.cluster.local",
        "equipoise-hints-webhook.equipoise-system",
        "equipoise-hints-webhook",
    ),
    secrets=(
        Secret(
            name="equipoise-hints-webhook-tls",
            pair="server",
            title="Install the certificate of the webhook, and that of its CA, for the API server:",
        ),
    ),
    remarks=(
        "Running webhooks and annotators read it when it has reached their pods (about a minute).",
        "",
        "Keep ca.key outside of the cluster: with it and a place in the network, somebody can change new pods.",
        "--force renews the certificate with it.",
    ),
)
"""The names are those of the Service in k8s/hints/webhook.yaml."""

PURPOSES: Mapping[str, Purpose] = {"extender": EXTENDER, "nats": NATS, "hints-webhook": HINTS_WEBHOOK}
