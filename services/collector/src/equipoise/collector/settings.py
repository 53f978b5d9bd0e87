"""What the collector is told: where usage is measured, of which nodes, how often."""

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from msgspec import Meta, field

from equipoise.collector.decisions.query import Statistic
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Section, Share

WHOLE = "all"
"""The shard of a collector that has the whole cluster."""

MOST_SHARDS = 16
"""Each has a Lease, and its name stands in the collector's Role."""


class BasicAuthentication(Section, frozen=True, kw_only=True):
    """Name and password, as HTTP basic authentication."""

    username: str
    password_file: str
    """Read anew for every query, so that a rotated secret needs no restart."""


WINDOW = "$window"
"""Stands for the length of a window in the user's own PromQL."""

_SELECTOR = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*(\{.*\})?|\{.+\}", re.ASCII | re.DOTALL)
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'')


class CustomQuery(Section, frozen=True, kw_only=True):
    """One resource of nodes or of pods in the user's own PromQL.

    Both answers name the node by one of `nodeLabels`, a pod by `namespace` and `pod`, and hold one series for each.
    """

    mean: str
    """Mean usage in cores or bytes over `$window`: sum by (node) (rate(my_cpu_seconds_total[$window]))."""

    samples: str
    """Selects one raw series per node or pod, whose samples tell age and gaps: my_cpu_seconds_total{core="0"}."""

    def __post_init__(self) -> None:
        if WINDOW not in self.mean:
            raise ValueError(f"mean must hold {WINDOW}, as in rate(my_cpu_seconds_total[{WINDOW}])")
        # A function's answer has the time of the query: only what was scraped tells its age.
        bare = _QUOTED.sub('""', self.samples.strip())
        if _SELECTOR.fullmatch(bare) is None or set(bare.partition("{")[2]) & set("()[]{"):
            raise ValueError(f'samples must be a plain selector, as my_cpu_seconds_total{{core="0"}}: {self.samples!r}')


class CustomQueries(Section, frozen=True, kw_only=True):
    """What `profile: custom` asks. What is left out is not measured: unknown, never 0."""

    node_cpu: CustomQuery | None = None
    node_memory: CustomQuery | None = None
    pod_cpu: CustomQuery | None = None
    pod_memory: CustomQuery | None = None


class PrometheusSettings(Section, frozen=True, kw_only=True):
    """The Prometheus (or what answers like it: Thanos, VictoriaMetrics, Mimir) that is asked."""

    url: str = "http://prometheus:9090"

    profile: Literal["kubelet", "kube-prometheus", "recording-rules", "custom"] = "kubelet"
    """Which metrics hold the usage (docs/metrics.md): `kubelet` are the kubelet's resource metrics, `kube-prometheus`
    node-exporter and cAdvisor, `recording-rules` our rules over these, `custom` your own PromQL under `custom`.
    """

    custom: CustomQueries = CustomQueries()
    """The queries of `profile: custom`."""

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
        if (self.profile == "custom") != (self.custom != CustomQueries()):
            raise ValueError("profile: custom and the queries under custom belong together: give both or neither")
        if self.profile == "custom" and self.custom.node_cpu is None and self.custom.node_memory is None:
            raise ValueError("custom must hold nodeCpu or nodeMemory: nothing would be known of any node")


class MetricsServerSettings(Section, frozen=True, kw_only=True):
    """How metrics.k8s.io is asked, through the API server."""

    interval: Duration = Duration(15)
    """Between two looks; metrics-server's own --metric-resolution is as good, more often tells nothing new."""

    history: Duration = Duration(3_600)
    """How long what was seen is kept, in memory: longer windows are unknown."""

    def __post_init__(self) -> None:
        if not 0 < self.interval < self.history:
            raise ValueError("interval must be longer than 0s and shorter than history")


class LoadWatcherSettings(Section, frozen=True, kw_only=True):
    """How load-watcher is asked."""

    url: str = "http://load-watcher:2020"

    interval: Duration = Duration(20)
    """Between two looks; load-watcher itself looks once a minute."""

    timeout: Annotated[float, Meta(gt=0)] = 10.0
    """Seconds that one answer may take. A network timeout: not divided by time compression."""

    body_limit: Annotated[int, Meta(ge=1_024)] = 64 * 2**20
    """Bytes of one answer; a larger one is dropped."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url {self.url!r} must look like http://load-watcher:2020")
        if parts.username is not None or parts.password is not None:
            raise ValueError("url must hold no user and password: load-watcher asks for none")
        if self.interval <= 0:
            raise ValueError("interval must be longer than 0s")


class ProfileSettings(Section, frozen=True, kw_only=True):
    """How a workload's typical day is learnt: 24 slots, each the mean of its pods."""

    enabled: bool = True

    day: Duration = Duration(86_400)
    """What is cut into 24 slots."""

    weight: Share = 0.3
    """Weight of the newest day in a slot; the rest stays with the days before."""

    pause: Duration = Duration(10)
    """Between the queries that fill the slots of the past day after a start."""


_SHARD = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_NUMBERED = re.compile(r".*-[0-9]+")


class CollectorSettings(Section, frozen=True, kw_only=True):
    """The section `collector`."""

    health: str = "0.0.0.0:8081"
    """Where /healthz, /readyz, /metrics and /version answer."""

    source: Literal["prometheus", "metrics-server", "load-watcher"] = "prometheus"
    """Where usage comes from; the section of its name says how it is asked."""

    prometheus: PrometheusSettings = PrometheusSettings()
    metrics_server: MetricsServerSettings = MetricsServerSettings()
    load_watcher: LoadWatcherSettings = LoadWatcherSettings()

    shards: Annotated[int, Meta(ge=1, le=MOST_SHARDS)] = 1
    """Into how many parts nodes and workloads are divided; each replica tells of its share, a lost one's is taken over.
    All replicas must agree."""

    shard: str = WHOLE
    """Names this collector's part of the cluster in its messages and in its Leases: for several `nodeSelector`s.
    Lower-case letters, digits and dashes; no number at its end, which is how the parts of a divided one are called."""

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
    """Up to here a workload's windows are made of what the shortest one said lately; longer ones come from its hourly
    slots. Pods themselves are asked for in the shortest window only."""

    jitter: Share = 0.1
    """Share of a refresh period by which rounds are moved about, so that replicas do not ask in step."""

    placement_gathering: Duration = Duration(0.05)
    """Changes of placement within this time leave as one message per node."""

    placement_period: Duration = Duration(300)
    """How often every placement is said again, changed or not."""

    profile: ProfileSettings = ProfileSettings()

    def __post_init__(self) -> None:
        if _SHARD.fullmatch(self.shard) is None:
            raise ValueError(f"shard {self.shard!r} must be a name of lower-case letters, digits and '-', as zone-a")
        if _NUMBERED.fullmatch(self.shard):
            family, _, number = self.shard.rpartition("-")
            raise ValueError(
                f"shard {self.shard!r} would be part {number} of a collector called {family!r}: end it otherwise"
            )
