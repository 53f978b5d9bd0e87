"""Records the moves without a gap: what the harness does, completed by the audit log."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from equipoise.contracts.eviction.approval import APPROVAL_ROLE
from equipoise.contracts.eviction.surge import TEMPLATE_HASH
from equipoise.runtime.process.clock import Clock
from equipoise.testbed import audit
from faults.cluster_setup import MOVES, OWN, workload_of
from faults.history_of_moves import (
    Approvals,
    LeftOvers,
    MovesHistory,
    ReadyEndpoints,
    Relabeling,
    Required,
    Rollout,
)


class MovesRecorder:
    """Empty unless a fault moves pods without a gap."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.required: list[Required] = []
        self.rollouts: list[Rollout] = []
        self.approvals: list[Approvals] = []
        self.relabelings: list[Relabeling] = []
        """Those of the harness."""

        self.left_overs: list[LeftOvers] = []

    def require(self, workload: str, replicas: int) -> None:
        self.required.append(Required(at=self._clock.now(), workload=workload, replicas=replicas))

    def approve(self, uids: Collection[str]) -> None:
        self.approvals.append(Approvals(at=self._clock.now(), uids=frozenset(uids)))

    def roll_out(self, workload: str) -> None:
        self.rollouts.append(Rollout(at=self._clock.now(), workload=workload))

    def relabel(self, pod: str, uid: str, value: str | None) -> None:
        change = Relabeling(
            at=self._clock.now(), pod=pod, workload=workload_of(pod), uid=uid, value=value, by_service=False
        )
        self.relabelings.append(change)

    def history(self, audit_log: Path, sent: Mapping[str, float]) -> MovesHistory:
        """`sent`: when requests were sent, by `Audit-ID`."""
        if not self.required:
            return MovesHistory()
        return MovesHistory(
            relabelings=(*self.relabelings, *_relabelings(audit_log, sent)),
            endpoints=tuple(_endpoints(audit_log)),
            required=tuple(self.required),
            approvals=(*self.approvals, *_approvals(audit_log)),
            rollouts=tuple(self.rollouts),
            left_overs=tuple(self.left_overs),
        )


def _relabelings(audit_log: Path, sent: Mapping[str, float]) -> Iterator[Relabeling]:
    """The writes of services."""
    for write in audit.writes_to(audit_log, "pods"):
        metadata = write.body.get("metadata") or {}
        if write.verb == "patch" and TEMPLATE_HASH in (metadata.get("labels") or {}):
            yield Relabeling(
                at=write.time.timestamp(),
                sent=sent.get(write.id),
                namespace=write.namespace,
                pod=write.name,
                workload=workload_of(write.name),
                uid=metadata.get("uid", ""),
                value=metadata["labels"][TEMPLATE_HASH],
            )


def _endpoints(audit_log: Path) -> Iterator[ReadyEndpoints]:
    """Each Service has one EndpointSlice: it has few pods."""
    for written in audit.written_slices(audit_log):
        namespace, _, service = written.service.partition("/")
        if namespace == MOVES:
            yield ReadyEndpoints(at=written.time.timestamp(), workload=service, ready=len(written.ready))


def _approvals(audit_log: Path) -> Iterator[Approvals]:
    """Those of deschedulers."""
    for write in audit.writes_to(audit_log, "roles"):
        if (write.namespace, write.name, write.verb) == (OWN, APPROVAL_ROLE, "update"):
            rules = write.body.get("rules") or ()
            uids = frozenset(name for rule in rules for name in rule.get("resourceNames") or ())
            yield Approvals(at=write.time.timestamp(), uids=uids)
