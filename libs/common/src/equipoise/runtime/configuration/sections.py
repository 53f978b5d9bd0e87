"""The sections of the configuration that all services share."""

from ipaddress import ip_address
from typing import Literal
from urllib.parse import urlsplit

from equipoise.contracts.configuration.moves import MovesSettings, surge_mode
from equipoise.contracts.configuration.protection import Protection
from equipoise.contracts.configuration.settings import LoadSettings, Namespaces, Placement, Section, Thresholds
from equipoise.contracts.configuration.surge import SurgeSettings
from equipoise.contracts.eviction.candidate import Rules


class Logging(Section, frozen=True, kw_only=True):
    """The log of a service, on stderr."""

    format: Literal["auto", "json", "console"] = "auto"
    """auto: a format for people on a terminal, JSON elsewhere."""

    level: Literal["debug", "info", "warning", "error"] = "info"


class Tls(Section, frozen=True, kw_only=True):
    """The files for TLS, in PEM format."""

    ca_file: str | None = None
    """Certificates of trusted CAs; null for those of the system."""

    cert_file: str | None = None
    """The client certificate, if the server requires one."""

    key_file: str | None = None

    def __post_init__(self) -> None:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("certFile and keyFile belong together: give both or neither")


class Nats(Section, frozen=True, kw_only=True):
    """The address of the bus, and the user of the service."""

    url: str = "nats://127.0.0.1:4222"
    """Addresses of the servers, separated by commas. With tls:// and wss://, connections are encrypted."""

    user: str | None = None
    password_file: str | None = None
    """The file with the password, so that neither a configuration nor an environment variable contains it."""

    tls: Tls | None = None
    """The files for certificates that the system does not trust. Requires TLS, also with nats://."""

    replicas: Literal[1, 3, 5] = 1
    """The number of servers that store each stream, for `equipoise setup`. One of 3 servers may fail, or two of 5."""

    def __post_init__(self) -> None:
        for url in self.urls:
            if not url.startswith(("nats://", "tls://", "ws://", "wss://")):
                raise ValueError("url must begin with nats://, tls://, ws:// or wss://, without spaces")
            if "@" in url:
                raise ValueError("url must not hold a password: use user and passwordFile")
        if self.tls is not None and any(url.startswith("ws://") for url in self.urls):
            raise ValueError("ws:// is never encrypted: use wss:// with tls")
        if (self.user is None) != (self.password_file is None):
            raise ValueError("user and passwordFile belong together: give both or neither")

    @property
    def urls(self) -> tuple[str, ...]:
        return tuple(self.url.split(","))

    @property
    def shown_url(self) -> str:
        """The address in messages for people."""
        return self.url

    @property
    def readable_urls(self) -> tuple[str, ...]:
        """The addresses on other machines that are used without TLS, so that others may read messages and the
        password."""
        unencrypted = ("nats://", "ws://") if self.tls is None else ()
        return tuple(url for url in self.urls if url.startswith(unencrypted) and not _is_loopback(url))

    @property
    def unencrypted(self) -> str:
        """A warning about `readable_urls` for people; empty if there are none."""
        if not self.readable_urls:
            return ""
        return f"messages and passwords are sent to {', '.join(self.readable_urls)} unencrypted"


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Kubernetes(Section, frozen=True, kw_only=True):
    """The connection to the API server."""

    kubeconfig: str = ""
    """A file. If empty, the ServiceAccount of the pod is used; outside a cluster, KUBECONFIG or ~/.kube/config."""

    context: str = ""
    """Context of the kubeconfig. If empty, the current context is used."""

    service_account: str = "/var/run/secrets/kubernetes.io/serviceaccount"
    """Directory with the token and the CA certificate of the ServiceAccount."""

    namespace: str = "equipoise-system"
    """The namespace of Equipoise, with its Leases and the eviction ledger."""


class Shared(Section, frozen=True, kw_only=True):
    """The sections that all services share."""

    logging: Logging = Logging()
    nats: Nats = Nats()
    kubernetes: Kubernetes = Kubernetes()
    load: LoadSettings = LoadSettings()
    thresholds: Thresholds = Thresholds()
    namespaces: Namespaces = Namespaces()
    protection: Protection = Protection()
    moves: MovesSettings = MovesSettings()
    surge: SurgeSettings = SurgeSettings()
    placement: Placement = Placement()

    @property
    def rules(self) -> Rules:
        """The rules about which pods may be moved."""
        return Rules(
            protection=self.protection,
            namespaces=self.namespaces,
            own_namespace=self.kubernetes.namespace,
            level=self.moves.level,
            surge=surge_mode(self.moves.level, self.surge.mode),
        )
