"""What the annotator is told: when a value is worth a write, and how many requests there may be."""

from typing import Annotated

import msgspec
from msgspec import Meta

from equipoise.annotator.decisions.write_decision import DeadBand
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.kubernetes import crane


class SeatSettings(Section, frozen=True, kw_only=True):
    """How replicas know of one another: each holds one Lease."""

    lease_duration: Annotated[float, Meta(ge=3)] = 30.0
    """Seconds after which a silent replica's objects go to the others. Not divided by time compression."""

    renew_period: Annotated[float, Meta(ge=1)] = 8.0
    """Seconds between two renewals."""

    def __post_init__(self) -> None:
        if self.lease_duration < 2 * self.renew_period:
            raise ValueError("leaseDuration must be at least twice renewPeriod")


class AnnotatorSettings(Section, frozen=True, kw_only=True):
    """The section `annotator`."""

    health: str = "0.0.0.0:8082"
    """Where /healthz, /readyz, /metrics and /version answer."""

    nodes: DeadBand = DeadBand(change=5, least_interval=Duration(60), period=Duration(1_800))
    """Change in points of percent of the node's base."""

    workloads: DeadBand = DeadBand(change=20, least_interval=Duration(60), period=Duration(21_600))
    """Change in percent of what stands there: a workload has no base to take a share of."""

    crane: bool = False
    """Also write crane-scheduler's annotations on nodes, for programs that read those. Needs k8s/overlays/crane."""

    writes_per_second: Annotated[float, Meta(gt=0, le=1_000)] = 10.0
    """Of all replicas together, tries that come to nothing included."""

    reads_per_second: Annotated[float, Meta(gt=0, le=1_000)] = 150.0
    """Of all replicas together. A replica reads each object before its first write on it.

    150: up to 38 s pass until somebody takes over what a replica leaves, and the 2,500 nodes that one of two had of
    5,000 are then read within the rest of a minute. To API priority and fairness the read of one object is one seat
    for some milliseconds: so many a second hold about one of the seats that service accounts share.
    """

    seat: SeatSettings = SeatSettings()

    @property
    def node_band(self) -> DeadBand:
        """As `nodes`, but as often as crane's annotations need it where they are asked for."""
        period = min(self.nodes.period, max(Duration(crane.PERIOD), self.nodes.least_interval))
        return msgspec.structs.replace(self.nodes, period=period) if self.crane else self.nodes
