"""What happened to nodes and pods in a run, from the audit log of the API server."""

from collections.abc import Collection
from pathlib import Path

import msgspec

from equipoise.cli.demo.manifests import DAEMON_SET
from equipoise.testbed import audit
from equipoise.testbed.processes.configuration import SCHEDULER

FOREVER = float("inf")


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """The time for which something was so, in Unix seconds. `until` is infinite if it still is."""

    name: str
    """The name of a node, or `namespace/name` of a pod."""

    since: float
    until: float

    def within(self, begin: float, end: float) -> float:
        """Its seconds between two times."""
        return max(0.0, min(self.until, end) - max(self.since, begin))


class Placed(Span, frozen=True, kw_only=True):
    """The time for which a pod was on a node."""

    node: str

    @property
    def workload(self) -> str:
        """`namespace/name` of its Deployment: names of pods are `<deployment>-<template hash>-<suffix>`."""
        return self.name.rsplit("-", 2)[0]


class History(msgspec.Struct, frozen=True, kw_only=True):
    """All nodes and pods of a run, without the pods of the DaemonSet."""

    nodes: tuple[Span, ...]
    pods: tuple[Placed, ...]
    pending: tuple[Span, ...]
    """Pods for which kube-scheduler found no node, until it bound them."""

    evictions: tuple[float, ...]
    """Unix seconds at which a pod was first evicted. Karpenter may ask again while the pod ends."""


def history(log: Path, nodes: Collection[str]) -> History:
    """The history of a log. `nodes`: the names of those that exist at its end."""
    bindings = [binding for binding in audit.bindings(log) if not _of_daemon_set(binding.pod)]
    writes = audit.pod_writes(log)
    deleted = {f"{write.namespace}/{write.pod}": write.time.timestamp() for write in writes if write.verb == "delete"}
    bound = {f"{binding.namespace}/{binding.pod}": binding.time.timestamp() for binding in bindings}

    unplaced: dict[str, float] = {}
    for write in writes:
        # kube-scheduler writes the status of a pod only if it has found no node for it.
        if (write.user, write.subresource) == (SCHEDULER, "status") and not _of_daemon_set(write.pod):
            unplaced.setdefault(f"{write.namespace}/{write.pod}", write.time.timestamp())
    evicted: dict[tuple[str, str], float] = {}
    for eviction in audit.evictions(log):
        if eviction.succeeded and not _of_daemon_set(eviction.pod):
            evicted.setdefault((eviction.namespace, eviction.pod), eviction.time.timestamp())
    return History(
        nodes=_nodes(log, nodes),
        pods=tuple(
            Placed(name=pod, node=binding.node, since=bound[pod], until=deleted.get(pod, FOREVER))
            for binding in bindings
            for pod in [f"{binding.namespace}/{binding.pod}"]
        ),
        pending=tuple(
            Span(name=pod, since=since, until=bound.get(pod, deleted.get(pod, FOREVER)))
            for pod, since in sorted(unplaced.items())
        ),
        evictions=tuple(evicted.values()),
    )


def _nodes(log: Path, existing: Collection[str]) -> tuple[Span, ...]:
    """A node that does not exist any more was removed by its last successful write, which ended its finalizers."""
    created: dict[str, float] = {}
    last: dict[str, float] = {}
    for write in audit.writes_to(log, "nodes"):
        at = write.time.timestamp()
        created.setdefault(write.name, at)
        last[write.name] = at
    return tuple(
        Span(name=name, since=since, until=FOREVER if name in existing else last[name])
        for name, since in sorted(created.items())
    )


def _of_daemon_set(pod: str) -> bool:
    return pod.startswith(f"{DAEMON_SET}-")
