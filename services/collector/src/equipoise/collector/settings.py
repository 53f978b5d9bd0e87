"""What the collector is told: where usage is measured, of which nodes, how often."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from msgspec import Meta, field

from equipoise.collector.questions import Statistic
from equipoise.contracts.duration import Duration
from equipoise.contracts.settings import Section, Share

WHOLE = "all"
"""The shard of a collector that has the whole cluster."""


class BasicAuthentication(Section, frozen=True, kw_only=True):
    """Name and password, as HTTP basic authentication."""

    username: str
    password_file: str
    """Read anew for every query, so that a rotated secret needs no restart."""


class PrometheusSettings(Section, frozen=True, kw_only=True):
    """The Prometheus (or what answers like it: Thanos, VictoriaMetrics, Mimir) that is asked."""

    url: str = "http://prometheus:9090"

    profile: Literal["kubelet"] = "kubelet"
    """Which metrics hold the usage: `kubelet` are the kubelet's resource metrics (/metrics/resource)."""

    node_labels: tuple[str, ...] = ("node", "instance")
    """Labels that may name a series' node; the first that is there counts, its port is cut off."""

    matchers: dict[str, str] = field(default_factory=dict)
    """Labels that every series must have, for a Prometheus of many clusters: {cluster: production}."""

    bearer_token_file: str | None = None
    """Read anew for every query."""

    basic_authentication: BasicAuthentication | None = None

    ca_file: str | None = None
    """Certificates that vouch for the server; default: the usual public ones."""

    cert_file: str | None = None
    key_file: str | None = None
    """Client certificate and key, for mutual TLS."""

    headers: dict[str, str] = field(default_factory=dict)
    """Sent with every query: {X-Scope-OrgID: platform}."""

    concurrency: Annotated[int, Meta(ge=1, le=32)] = 4
    """Queries under way at once."""

    timeout: Annotated[float, Meta(gt=0)] = 20.0
    """Seconds that one query may take, its body included. A network timeout: not divided by time compression."""

    body_limit: Annotated[int, Meta(ge=1_024)] = 64 * 2**20
    """Bytes of one answer; a larger one is dropped."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url {self.url!r} must look like http://prometheus:9090")
        if parts.username is not None or parts.password is not None:
            raise ValueError("url must hold no user and password: use basicAuthentication")
        if self.bearer_token_file and self.basic_authentication:
            raise ValueError("give bearerTokenFile or basicAuthentication, not both")
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("give certFile and keyFile together")
        if not self.node_labels:
            raise ValueError("nodeLabels must name at least one label")


class ProfileSettings(Section, frozen=True, kw_only=True):
    """How a workload's typical day is learnt: 24 slots, each the mean of its pods."""

    enabled: bool = True

    day: Duration = Duration(86_400)
    """What is cut into 24 slots."""

    weight: Share = 0.3
    """Weight of the newest day in a slot; the rest stays with the days before."""

    pause: Duration = Duration(10)
    """Between the queries that fill the slots of the past day after a start."""


class CollectorSettings(Section, frozen=True, kw_only=True):
    """The section `collector`."""

    health: str = "0.0.0.0:8081"
    """Where /healthz, /readyz, /metrics and /version answer."""

    source: Literal["prometheus"] = "prometheus"
    """Where usage comes from."""

    prometheus: PrometheusSettings = PrometheusSettings()

    shard: str = WHOLE
    """Names this collector's part of the cluster in its messages and in its Lease."""

    node_selector: dict[str, str] = field(default_factory=dict)
    """Labels of the nodes that are this collector's; default: every node."""

    leader_election: bool = True
    """Only one replica speaks, the others watch and wait. Off: this one speaks at once."""

    scrape_interval: Duration | None = None
    """How far apart raw samples lie; default: found out from the samples, per node."""

    statistics: tuple[Statistic, ...] = ()
    """What is measured besides the mean, in windows up to `statisticsLimit`."""

    statistics_limit: Duration = Duration(3_600)
    """Longer windows have only a mean: quantiles over a day of raw samples are dear."""

    pods_limit: Duration = Duration(3_600)
    """Longer windows are not asked for pods; a workload's day comes from its hourly slots."""

    jitter: Share = 0.1
    """Share of a refresh period by which rounds are moved about, so that replicas do not ask in step."""

    placement_gathering: Duration = Duration(0.05)
    """Changes of placement within this time leave as one message per node."""

    placement_period: Duration = Duration(300)
    """How often every placement is said again, changed or not."""

    profile: ProfileSettings = ProfileSettings()
