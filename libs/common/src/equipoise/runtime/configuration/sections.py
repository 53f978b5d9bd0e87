"""The sections of the configuration that every service must read alike."""

from typing import Literal

from equipoise.contracts.configuration.settings import LoadSettings, Namespaces, Protection, Section, Thresholds


class Logging(Section, frozen=True, kw_only=True):
    """How a service tells what it does, on stderr."""

    format: Literal["auto", "json", "console"] = "auto"
    """auto: for people on a terminal, JSON elsewhere."""

    level: Literal["debug", "info", "warning", "error"] = "info"


class Tls(Section, frozen=True, kw_only=True):
    """Files in PEM format."""

    ca_file: str | None = None
    """Whom to trust; null: the system's certificates."""

    cert_file: str | None = None
    """Our own certificate, where the server asks for one."""

    key_file: str | None = None

    def __post_init__(self) -> None:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("certFile and keyFile belong together: give both or neither")


class Nats(Section, frozen=True, kw_only=True):
    """Where the bus is, and as whom to speak there."""

    url: str = "nats://127.0.0.1:4222"
    """Several servers are parted by commas."""

    user: str | None = None
    password_file: str | None = None
    """A file, so that no password stands in a configuration or in an environment."""

    tls: Tls | None = None
    """Needed only for certificates that the system does not know."""

    def __post_init__(self) -> None:
        for url in self.urls:
            if not url.startswith(("nats://", "tls://", "ws://", "wss://")):
                raise ValueError("url must begin with nats://, tls://, ws:// or wss://, without spaces")
            if "@" in url:
                raise ValueError("url must not hold a password: use user and passwordFile")
        if (self.user is None) != (self.password_file is None):
            raise ValueError("user and passwordFile belong together: give both or neither")

    @property
    def urls(self) -> tuple[str, ...]:
        return tuple(self.url.split(","))


class Kubernetes(Section, frozen=True, kw_only=True):
    """Where the API server is."""

    kubeconfig: str = ""
    """A file. Empty: the pod's own ServiceAccount; outside a cluster what KUBECONFIG names, else ~/.kube/config."""

    context: str = ""
    """Of the kubeconfig. Empty: its current one."""

    service_account: str = "/var/run/secrets/kubernetes.io/serviceaccount"
    """Directory of the pod's own token and of the authority it trusts."""

    namespace: str = "equipoise-system"
    """Equipoise's own namespace: Leases and the ledger of evictions live there."""


class Shared(Section, frozen=True, kw_only=True):
    """The sections that every service must read alike."""

    logging: Logging = Logging()
    nats: Nats = Nats()
    kubernetes: Kubernetes = Kubernetes()
    load: LoadSettings = LoadSettings()
    thresholds: Thresholds = Thresholds()
    namespaces: Namespaces = Namespaces()
    protection: Protection = Protection()
