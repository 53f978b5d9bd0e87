"""The section `annotator` of the configuration: when a value is written, and how many requests there may be."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from equipoise.annotator.decisions.hint_write import HintWriteThreshold
from equipoise.annotator.decisions.write_decision import WriteThreshold
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.moves import DeletionCosts
from equipoise.contracts.configuration.server_tls import ServerTls
from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.kubernetes import crane
from equipoise.contracts.messages.values.lease import LONGEST_LEASE


class MembershipSettings(Section, frozen=True, kw_only=True):
    """How replicas know which others are alive: each holds one Lease."""

    lease_duration: Annotated[float, Meta(ge=3, le=LONGEST_LEASE)] = 30.0
    """Seconds after which other replicas take over the objects of a replica that does not renew its Lease. Not divided
    by time compression."""

    renew_period: Annotated[float, Meta(ge=1)] = 8.0
    """Seconds between two renewals."""

    def __post_init__(self) -> None:
        if self.lease_duration < 2 * self.renew_period:
            raise ValueError("leaseDuration must be at least twice renewPeriod")


class HintsWebhookSettings(Section, frozen=True, kw_only=True):
    """The webhook that adds placement hints to new pods, and its guard.

    Its program is `python -m equipoise.annotator.shell.hints_webhook`.

    The paths are those at which k8s/hints/webhook.yaml mounts the Secret `equipoise-hints-webhook-tls`.
    """

    listen: str = "0.0.0.0:10250"
    """Address for the API server. Many managed clusters let their control plane reach nodes at ports 443 and 10250
    only."""

    tls: ServerTls = ServerTls(
        certificate_file="/run/secrets/hints-webhook/tls.crt", key_file="/run/secrets/hints-webhook/tls.key"
    )

    ca_file: str = "/run/secrets/hints-webhook/ca.crt"
    """The CA of the certificate. The annotators write it to the configuration of the API server."""

    service_port: Annotated[int, Meta(ge=1, le=65_535)] = 443
    """Port of the Service `equipoise-hints-webhook`."""

    concurrency: Annotated[int, Meta(ge=1)] = 32
    """Maximum number of pods that are handled at once. Further pods are created without hints.

    32: requests of the maximum size then take 128 MiB, a third of the memory limit in k8s/hints/webhook.yaml.
    """

    max_body_bytes: Annotated[int, Meta(ge=2**20)] = 4 * 2**20
    """Maximum size of a request: a pod has at most 1.5 MiB. Pods of larger requests are created without hints."""


class HintWriteSettings(HintWriteThreshold, frozen=True, kw_only=True):
    """Placement hints (`placement.hints`), which the API server adds to new pods."""

    admission: Literal["policy", "webhook"] = "policy"
    """What adds hints to pods: `policy`, an admission policy of the API server, from Kubernetes 1.36 on (or 1.34 with a
    feature gate); `webhook`, a program of Equipoise, from 1.30 on."""

    webhook: HintsWebhookSettings = HintsWebhookSettings()

    requests_per_second: Annotated[float, Meta(gt=0, le=1_000)] = 20.0
    """Maximum rate of reads and writes by all replicas together. Each namespace needs two in five minutes, and one for
    each change."""


class ReclaimedWriteSettings(Section, frozen=True, kw_only=True):
    """The annotation `equipoise.dev/reclaimed` of nodes, for people and other programs."""

    enabled: bool = False
    """Needs the reclaimer (`reclaimer.enabled`)."""


class AnnotatorSettings(Section, frozen=True, kw_only=True):
    """The section `annotator`."""

    health: str = "0.0.0.0:8082"
    """Address of /healthz, /readyz, /metrics and /version."""

    nodes: WriteThreshold = WriteThreshold(min_change=5, min_interval=Duration(60), refresh_period=Duration(1_800))
    """Change in percentage points of the node's base."""

    workloads: WriteThreshold = WriteThreshold(
        min_change=20, min_interval=Duration(60), refresh_period=Duration(21_600)
    )
    """Change in percent of the written value: a workload has no base."""

    crane: bool = False
    """Writes crane-scheduler's annotations on nodes too, for programs that read those. Needs k8s/overlays/crane."""

    writes_per_second: Annotated[float, Meta(gt=0, le=1_000)] = 10.0
    """Maximum rate of writes by all replicas together, including failed attempts."""

    reads_per_second: Annotated[float, Meta(gt=0, le=1_000)] = 150.0
    """The maximum for all replicas together. A replica reads each object before it writes it for the first time.

    150: a lost replica's objects are taken over within 38 s. Its 2,500 nodes (half of 5,000) are then read within the
    rest of a minute. For API priority and fairness, the read of one object occupies one seat for some milliseconds.
    150 reads per second occupy about one of the seats that service accounts share.
    """

    deletion_costs: DeletionCosts | None = None
    """Which pods of a workload an expected scale-down should delete first: those on the nodes that will be hottest, or
    those on the nodes with the fewest pods, so that nodes become empty.

    The annotator writes `controller.kubernetes.io/pod-deletion-cost` to pods of ReplicaSets, minutes before a
    scale-down that the days before had at this hour. Needs k8s/deletion-costs.

    null: hottestNodes from `moves.level` scaleDowns on, else none.
    """

    hints: HintWriteSettings = HintWriteSettings()
    reclaimed: ReclaimedWriteSettings = ReclaimedWriteSettings()
    membership: MembershipSettings = MembershipSettings()

    @property
    def node_threshold(self) -> WriteThreshold:
        """The same as `nodes`. With crane's annotations, the refresh period is at most the period that these need."""
        period = min(self.nodes.refresh_period, max(Duration(crane.PERIOD), self.nodes.min_interval))
        return msgspec.structs.replace(self.nodes, refresh_period=period) if self.crane else self.nodes
