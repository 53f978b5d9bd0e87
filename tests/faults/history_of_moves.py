"""What happened to the pods that were moved without a gap: a part of the history of a run.

Nothing in it comes from metrics or logs of Equipoise. Times are Unix seconds on one machine's clock.
"""

from collections.abc import Iterable, Iterator

import msgspec


class Relabeling(msgspec.Struct, frozen=True, kw_only=True):
    """A write of the label `pod-template-hash` of a pod: by a service from the audit log, or by the harness."""

    at: float
    """The time at which the API server received it."""

    sent: float | None = None
    """The time at which the binder sent it; None if that is not known."""

    namespace: str = "moves"
    pod: str
    workload: str
    uid: str
    value: str | None
    """The new value; None: the label was removed, which detaches the pod from its ReplicaSet."""

    by_service: bool = True
    """False: the harness wrote it, as a tenant may."""


class ReadyEndpoints(msgspec.Struct, frozen=True, kw_only=True):
    """The number of ready endpoints that the EndpointSlice of a Service had after a write; from the audit log."""

    at: float
    workload: str
    """The name of the Service, which is that of its Deployment."""

    ready: int


class Required(msgspec.Struct, frozen=True, kw_only=True):
    """From this time on, a workload must have this many ready endpoints.

    Fewer are required before a request that scales down or deletes, and more when the workload has become complete.
    """

    at: float
    workload: str
    replicas: int


class Approvals(msgspec.Struct, frozen=True, kw_only=True):
    """From this time on, the evictions of exactly these pods are approved."""

    at: float
    uids: frozenset[str]


class Rollout(msgspec.Struct, frozen=True, kw_only=True):
    """A rollout of a workload began."""

    at: float
    workload: str


class LeftOvers(msgspec.Struct, frozen=True, kw_only=True):
    """The pods without a controller at the end of a run, after everything was repaired."""

    at: float
    seconds: float
    """The time that had passed since the repair."""

    pods: tuple[str, ...] = ()
    """Those that no move in the ledger has, or that a move has had for too long."""


class MovesHistory(msgspec.Struct, frozen=True, kw_only=True):
    """All moves without a gap of a run, and those before it."""

    relabelings: tuple[Relabeling, ...] = ()
    endpoints: tuple[ReadyEndpoints, ...] = ()
    required: tuple[Required, ...] = ()
    approvals: tuple[Approvals, ...] = ()
    rollouts: tuple[Rollout, ...] = ()
    left_overs: tuple[LeftOvers, ...] = ()

    @property
    def detached(self) -> list[Relabeling]:
        """The requests of services that detached a pod, in order of time."""
        found = (write for write in self.relabelings if write.value is None and write.by_service)
        return sorted(found, key=lambda write: write.at)

    def restored(self, detached: Relabeling, until: float) -> list[Relabeling]:
        """The writes that gave this pod its label back, after it was detached and before a time."""
        return [
            write
            for write in self.relabelings
            if write.uid == detached.uid and write.value is not None and detached.at <= write.at < until
        ]


def below(endpoints: Iterable[ReadyEndpoints], required: Iterable[Required]) -> Iterator[tuple[float, float, int, int]]:
    """The spans in which a workload had fewer ready endpoints than required: begin, seconds, ready, required.

    `endpoints` and `required` are those of one workload. The last span, if it has not ended, has 0 seconds.
    """
    events = [(each.at, "ready", each.ready) for each in endpoints]
    events += [(each.at, "required", each.replicas) for each in required]
    ready = needed = fewest = most = 0
    begin: float | None = None
    for at, what, count in sorted(events, key=lambda event: event[0]):
        if what == "ready":
            ready = count
        else:
            needed = count
        if ready >= needed:
            if begin is not None:
                yield begin, at - begin, fewest, most
            begin = None
        elif begin is None:
            begin, fewest, most = at, ready, needed
        else:
            fewest, most = min(fewest, ready), max(most, needed)
    if begin is not None:
        yield begin, 0.0, fewest, most
