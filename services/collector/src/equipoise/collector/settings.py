"""The section `collector` of the configuration: where usage is measured, of which nodes, how often."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import urlsplit

from msgspec import Meta, field

from equipoise.collector.decisions.profiles import PROFILES
from equipoise.collector.decisions.profiles.custom import CustomQueries
from equipoise.collector.decisions.query import Statistic
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Section, Share

SOURCES: Mapping[str, str] = {
    "prometheus": "equipoise.collector.sources.prometheus.prometheus_source",
    "metrics-server": "equipoise.collector.sources.metrics_server",
    "load-watcher": "equipoise.collector.sources.load_watcher",
}
"""The module of each metric source. Another source is one module and one line here."""

if TYPE_CHECKING:
    SourceName = str
    ProfileName = str
else:
    SourceName = Literal[tuple(SOURCES)]
    ProfileName = Literal[tuple(PROFILES)]

WHOLE_CLUSTER = "all"
"""The shard of a collector of the whole cluster."""

MAX_SHARDS = 16
"""The maximum number of shards: the collector's Role names a Lease for each."""


class BasicAuthentication(Section, frozen=True, kw_only=True):
    """Name and password, as HTTP basic authentication."""

    username: str
    password_file: str
    """Read for every query, so that a rotated secret needs no restart."""


class ScrapeJobs(Section, frozen=True, kw_only=True):
    """Names of scrape jobs (label `job`) whose series are read. Default: the jobs that measure most nodes are found."""

    nodes: tuple[str, ...] = ()
    """Jobs of the usage of nodes: [node-exporter]; with the profile `kubelet`, the same as for `pods`."""

    pods: tuple[str, ...] = ()
    """Jobs of the usage of pods: [kubelet]."""


class PrometheusSettings(Section, frozen=True, kw_only=True):
    """The Prometheus, or a server with its HTTP API (Thanos, VictoriaMetrics, Mimir)."""

    url: str = "http://prometheus:9090"

    profile: ProfileName = "kubelet"
    """Which metrics hold the usage (docs/metrics.md): `kubelet` are the kubelet's resource metrics, `kube-prometheus`
    node-exporter and cAdvisor, `recording-rules` our rules over these, `custom` your own PromQL under `custom`.
    """

    custom: CustomQueries = CustomQueries()
    """The queries of `profile: custom`."""

    node_labels: tuple[str, ...] = ("node", "k8s_node_name", "kubernetes_node", "instance")
    """Labels that may name the node of a series, by its name, host name or address; the first one present is used,
    without a port."""

    jobs: ScrapeJobs = ScrapeJobs()
    """The jobs to read. They are not added to the queries of `profile: custom`."""

    matchers: dict[str, str] = field(default_factory=dict)
    """Labels that every series must have, for a Prometheus with several clusters: {cluster: production}."""

    bearer_token_file: str | None = None
    """Read for every query."""

    basic_authentication: BasicAuthentication | None = None

    ca_file: str | None = None
    """Certificates of trusted CAs; default: those of the system."""

    cert_file: str | None = None
    key_file: str | None = None
    """Client certificate and key, for mutual TLS."""

    headers: dict[str, str] = field(default_factory=dict)
    """Sent with every query: {X-Scope-OrgID: platform}."""

    concurrency: Annotated[int, Meta(ge=1, le=32)] = 4
    """Maximum number of concurrent queries."""

    timeout: Annotated[float, Meta(gt=0)] = 20.0
    """Timeout in seconds of one query, including its body. A network timeout: not divided by time compression."""

    max_body_bytes: Annotated[int, Meta(ge=1_024)] = 64 * 2**20
    """Maximum size of one response; larger ones are discarded."""

    @property
    def shown_url(self) -> str:
        """The address for messages: a command may reach the server at another one."""
        return self.url

    def __post_init__(self) -> None:
        _check_url(self.url, "http://prometheus:9090", "use basicAuthentication")
        if self.bearer_token_file and self.basic_authentication:
            raise ValueError("set bearerTokenFile or basicAuthentication, not both")
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("set certFile and keyFile together")
        if not self.node_labels:
            raise ValueError("nodeLabels must name at least one label")
        if (self.profile == "custom") != (self.custom != CustomQueries()):
            raise ValueError("set profile: custom and the queries under custom together, or neither")
        if self.profile == "custom" and self.custom.node_cpu is None and self.custom.node_memory is None:
            raise ValueError("custom must hold nodeCpu or nodeMemory: otherwise no node is measured")


class MetricsServerSettings(Section, frozen=True, kw_only=True):
    """metrics.k8s.io, through the API server."""

    interval: Duration = Duration(15)
    """Time between two requests. metrics-server has no newer values within its --metric-resolution."""

    retention: Duration = Duration(3_600)
    """How long values are kept in memory. Longer windows are unknown."""

    def __post_init__(self) -> None:
        if not 0 < self.interval < self.retention:
            raise ValueError("interval must be longer than 0s and shorter than retention")


class LoadWatcherSettings(Section, frozen=True, kw_only=True):
    """load-watcher's HTTP API."""

    url: str = "http://load-watcher:2020"

    interval: Duration = Duration(20)
    """Time between two requests. load-watcher itself measures once a minute."""

    timeout: Annotated[float, Meta(gt=0)] = 10.0
    """Timeout in seconds of one response. A network timeout: not divided by time compression."""

    max_body_bytes: Annotated[int, Meta(ge=1_024)] = 64 * 2**20
    """Maximum size of one response; larger ones are discarded."""

    def __post_init__(self) -> None:
        _check_url(self.url, "http://load-watcher:2020", "load-watcher needs none")
        if self.interval <= 0:
            raise ValueError("interval must be longer than 0s")


def _check_url(url: str, example: str, advice: str) -> None:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of the port, or of an IPv6 address
        valid = False
    if not valid:
        raise ValueError(f"url {url!r} must have the form {example}")
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"url must hold no user and password: {advice}")


class ProfileSettings(Section, frozen=True, kw_only=True):
    """How a workload's 24-hour profile is learned: 24 slots, each the mean of its pods."""

    enabled: bool = True

    day: Duration = Duration(86_400)
    """Length of the profile."""

    weight: Share = 0.3
    """Weight of the newest day in a slot, compared with all earlier days."""

    backfill_interval: Duration = Duration(10)
    """Time between the queries that fill the slots of the past day after a start."""


_SHARD = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_NUMBERED = re.compile(r".*-[0-9]+")


class CollectorSettings(Section, frozen=True, kw_only=True):
    """The section `collector`."""

    health: str = "0.0.0.0:8081"
    """Address of /healthz, /readyz, /metrics and /version."""

    source: SourceName = "prometheus"
    """The source of measurements; its settings are in the section of the same name."""

    prometheus: PrometheusSettings = PrometheusSettings()
    metrics_server: MetricsServerSettings = MetricsServerSettings()
    load_watcher: LoadWatcherSettings = LoadWatcherSettings()

    shards: Annotated[int, Meta(ge=1, le=MAX_SHARDS)] = 1
    """Number of shards that nodes and workloads are divided into. Each replica measures and publishes its share of the
    shards, and takes over those of a lost replica. It must be equal in all replicas."""

    shard: str = WHOLE_CLUSTER
    """Name of this collector's part of the cluster in its messages and Leases, for several collectors with different
    `nodeSelector`s. Lower-case letters, digits and dashes; no number at its end, which numbers the shards."""

    node_selector: dict[str, str] = field(default_factory=dict)
    """Labels of the nodes of this collector; default: all nodes."""

    unmeasured_nodes: tuple[dict[str, str], ...] = ()
    """Labels of nodes of which no data is expected, besides virtual and Windows nodes: [{pool: edge}]. An entry selects
    the nodes that have all of its labels. They do not lower the coverage."""

    leader_election: bool = True
    """true: only the holder of a shard's Lease publishes it. false: this replica publishes every shard at once."""

    scrape_interval: Duration | None = None
    """Interval between raw samples; default: measured for each node."""

    statistics: tuple[Statistic, ...] = ()
    """Statistics besides the mean, for windows up to `statisticsWindowLimit`."""

    statistics_window_limit: Duration = Duration(3_600)
    """Longer windows have only a mean: quantiles over a day of raw samples are expensive."""

    pressure: bool = True
    """Whether the pressure (PSI) of nodes and pods is measured, where the source has it. Over 5,000 nodes with 150,000
    pods, it costs Prometheus about as much as the usage of pods."""

    pod_window_limit: Duration = Duration(3_600)
    """Pods are queried in the shortest window only. A workload's windows up to this length are made of recent means of
    that window, longer ones of the slots of its profile."""

    jitter: Share = 0.1
    """Share of a refresh period by which rounds vary, so that replicas do not query at the same time."""

    placement_batch_period: Duration = Duration(0.05)
    """Changes of placement within this time are published as one message per node."""

    placement_resync_period: Duration = Duration(300)
    """How often every placement is published again, even without a change."""

    profile: ProfileSettings = ProfileSettings()

    @property
    def names_source(self) -> bool:
        """Whether there is another source than the default URL, which is used if none was configured or found."""
        return self.source != "prometheus" or self.prometheus.shown_url != PrometheusSettings().url

    @property
    def source_and_address(self) -> str:
        """The source for messages, with its address if it has one of its own."""
        match self.source:
            case "prometheus":
                return f"Prometheus at {self.prometheus.shown_url}"
            case "load-watcher":
                return f"load-watcher at {self.load_watcher.url}"
        return self.source

    def __post_init__(self) -> None:
        if _SHARD.fullmatch(self.shard) is None:
            raise ValueError(f"shard {self.shard!r} must be a name of lower-case letters, digits and '-', as zone-a")
        if not all(self.unmeasured_nodes):
            raise ValueError("unmeasuredNodes: each entry must have a label, as {pool: edge}")
        if _NUMBERED.fullmatch(self.shard):
            family, _, number = self.shard.rpartition("-")
            raise ValueError(
                f"shard {self.shard!r} would be shard {number} of a collector named {family!r}: choose another ending"
            )
