"""The scorer's section of the configuration: how to score, and where to serve."""

from ipaddress import ip_address
from typing import Annotated, Literal

from msgspec import Meta

from equipoise.contracts.configuration.server_tls import ServerTls
from equipoise.contracts.configuration.settings import Section
from equipoise.scorer.decisions.scoring_settings import ScoringSettings


class ExtenderSettings(Section, frozen=True, kw_only=True):
    """The HTTP server for kube-scheduler."""

    deadline: Annotated[float, Meta(gt=0)] = 0.1
    """Seconds after which a response is neutral: half of the httpTimeout of the shipped extender entry.

    A network timeout: not divided by time compression.
    """

    concurrency: Annotated[int, Meta(ge=1)] = 64
    """Maximum number of concurrent requests; more are refused, and kube-scheduler continues without scores."""

    max_connections: Annotated[int, Meta(ge=1)] = 256
    """Maximum number of open connections. Above it, the client with the most connections loses the one that was unused
    for the longest time."""

    max_connections_per_address: Annotated[int, Meta(ge=1)] = 16
    """Maximum number of open connections from one IP address. Above it, the one that was unused for the longest time is
    closed. kube-scheduler needs one or two. Raise it if many kube-schedulers reach the scorer from the same address."""

    handshake_timeout: Annotated[float, Meta(gt=0)] = 5.0
    """Seconds within which a client must be verified (with `tls.clientCaFile`) or send the head of its first request.

    A network timeout: not divided by time compression.
    """

    max_body_bytes: Annotated[int, Meta(ge=2**20)] = 2 * 2**20
    """Maximum size of a request. The names of 5,000 nodes have 0.3 MiB, a Pod has at most 1.5 MiB. If kube-scheduler
    sends whole Node objects (nodeCacheCapable: false), each has some 5 KiB."""

    keep_alive_timeout: Annotated[float, Meta(gt=90)] = 120.0
    """Seconds until an idle connection is closed: more than kube-scheduler's 90, so that kube-scheduler closes it."""

    filter: bool = False
    """Refuse nodes that would be above a high threshold with the pod. Needs `filterVerb: filter` in kube-scheduler."""

    max_score: Literal[10, 100] = 10
    """The highest score of a node. Use 100 only with `weight: 1` in the extender entry.

    kube-scheduler adds score × weight × 10 points to a node, without a maximum (pkg/scheduler/schedule_one.go of v1.36,
    MaxNodeScore ÷ MaxExtenderPriority). So 10 with the shipped weight of 5 spans 500 points in steps of 50, and 100
    with weight 1 spans 1,000 points in steps of 10, compared with at most 1,200 points of kube-scheduler's own plugins.
    100 with weight 5 would override all of these plugins.
    """

    tls: ServerTls | None = None
    """null: plain HTTP. Without `clientCaFile`, the scorer starts only on a loopback address, or with
    `allowUnauthenticated`."""

    allow_unauthenticated: bool = False
    """Serve clients without a certificate on addresses that other machines reach. Every such client can then change
    where pods are placed: a request reserves load on the best nodes, and its pod may be taken for a replacement."""


class AdviceSettings(Section, frozen=True, kw_only=True):
    """Every placed pod is scored as if it were pending, for `equipoise report`."""

    per_second: Annotated[float, Meta(ge=0)] = 10.0
    """Maximum rate; placements above it are counted as skipped. 0: no advice."""


class ScorerSettings(ScoringSettings, frozen=True, kw_only=True):
    """The settings of the scorer. Those that affect scores are in `decisions/scoring_settings.py`."""

    health: str = "0.0.0.0:8083"
    """Address of /healthz, /readyz, /metrics and /version."""

    listen: str = "0.0.0.0:8888"
    """Address of /prioritize and /filter, for kube-scheduler."""

    neutral: bool = False
    """Give every node the same score: removes Equipoise from scheduling without a change of kube-scheduler."""

    decisions_per_second: Annotated[float, Meta(ge=0)] = 10.0
    """Maximum rate of decisions published with their inputs on `decision.scorer.…`; 0: none."""

    advice: AdviceSettings = AdviceSettings()

    extender: ExtenderSettings = ExtenderSettings()

    @property
    def serves_any_client(self) -> bool:
        """Whether the extender is reachable from other machines, and requires no client certificate."""
        tls = self.extender.tls
        return (tls is None or tls.client_ca_file is None) and not _is_loopback(self.listen)


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
