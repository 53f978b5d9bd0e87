"""The latest messages of every node, and the amounts that were offered."""

import math
from collections.abc import Mapping
from typing import Literal

import msgspec

from equipoise.contracts.colocation.bands import OFFERED_BANDS, RESOURCE_NAMES
from equipoise.contracts.load.cluster_messages import ClusterMessages
from equipoise.contracts.load.correction import amounts
from equipoise.contracts.load.latest import supersedes
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.reclaimed import ReclaimedNode
from equipoise.contracts.messages.utilization import NodeUtilization, WorkloadUtilization
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.numeric import np
from equipoise.reclaimer.state.deviations import Deviations
from equipoise.reclaimer.state.hourly_worst import HourlyWorst
from equipoise.reclaimer.state.node_usage import (
    BandRequests,
    NodeUsage,
    WorkloadProfiles,
    band_requests,
    node_usage,
)
from equipoise.reclaimer.state.observed_node import Amounts, ObservedNode
from equipoise.reclaimer.state.status_changes import StatusChanges

PROFILE_AGE = 86_400.0
"""Seconds since its last measurement after which the profile of a workload is dropped."""


class _Node(msgspec.Struct, kw_only=True):
    """What is kept of one node."""

    usage: NodeUsage | None = None
    requests: BandRequests
    last: Amounts = {}
    offered: Mapping[str, int] = {}
    written_at: float | None = None
    changes: StatusChanges


class LatestNodes:
    """The latest messages of every node. A message that is older than the latest one is dropped."""

    def __init__(self, started_at: float, *, hours: int = 6, day: float = 86_400.0) -> None:
        """`started_at`: Unix seconds from which on measurements are expected. `hours`: expected lifetime of batch pods.
        `day`: length of a day in seconds."""
        self._started_at = started_at
        self._nodes: dict[str, _Node] = {}
        self._messages = ClusterMessages()
        self._published: dict[str, ReclaimedNode] = {}
        """The latest messages of this or an earlier reclaimer, by node."""

        self._profiles = WorkloadProfiles()
        self._highest = HourlyWorst(day)
        self.deviations = Deviations(hours, day)

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def names(self) -> list[str]:
        return sorted(self._nodes)

    def on_placement(self, message: NodePlacement, now: float) -> bool:
        before = self._messages.placements.get(message.node)
        if not self._messages.on_placement(message, now):
            return False
        if message.removed:
            self._nodes.pop(message.node, None)
            self._published.pop(message.node, None)
            self._highest.remove(message.node)
            self.deviations.remove(message.node)
            return True
        if before is None or before.uid != message.uid:
            self._nodes[message.node] = _Node(requests=band_requests(message), changes=StatusChanges())
            self._restore(message.node, now)
        else:
            node = self._nodes[message.node]
            node.requests = band_requests(message)
            if message.colocation.amounts != before.colocation.amounts:
                node.changes.on_status(amounts_in_status(before), amounts_in_status(message), now)
        self._update(message.node, now)
        return True

    def on_utilization(self, message: NodeUtilization, now: float) -> bool:
        """A message without the usage of the node is no measurement: the node keeps the age of the last one."""
        if not _is_measured(message):
            return True
        if not self._messages.on_utilization(message, now):
            return False
        if message.node in self._nodes:
            self._update(message.node, now)
            self._observe_deviation(message.node, now)
        return True

    def on_workload(self, message: WorkloadUtilization, _: float) -> None:
        """A node uses the new profile from its next message on."""
        self._profiles.on_workload(message)

    def on_reclaimed(self, message: ReclaimedNode, now: float) -> bool:
        """Continue with the amounts that this or an earlier reclaimer published."""
        if not supersedes(message, self._published.get(message.node)):
            return False
        self._published[message.node] = message
        if message.node in self._nodes:
            self._restore(message.node, now)
        return True

    def next_epoch(self, now: float) -> int:
        """An epoch above those of all messages: `now` in milliseconds, or more if a reclaimer's clock was ahead."""
        return max(int(now * 1_000), 1 + max((message.epoch for message in self._published.values()), default=0))

    def observed(self, name: str, mode: Literal["observe", "enforce"], now: float) -> ObservedNode:
        """What an evaluation reads of the node. Raises KeyError if the node is unknown."""
        node, placement, utilization = self._nodes[name], self._messages.placements[name], self._utilization(name)
        sampled_at = None if utilization is None else utilization.sampled_at
        colocation, lost = placement.colocation, node.changes.lost
        in_status = amounts_in_status(placement) | lost
        return ObservedNode(
            placement=placement,
            usage=node.usage,
            sampled_at=sampled_at,
            age=now - (self._started_at if sampled_at is None else sampled_at),
            highest=self._highest.day(name, placement.uid, now),
            existing=in_status if mode == "enforce" else node.offered,
            inconsistent=mode == "enforce" and (bool(lost) or colocation.capacity_amounts != colocation.amounts),
            contested=mode == "enforce" and node.changes.is_contested(now),
            requests=node.requests,
            outlook=self.deviations.outlook(name, placement.uid),
            last=node.last,
            since_write=math.inf if node.written_at is None or node.written_at > now else now - node.written_at,
        )

    def on_evaluated(self, name: str, last: Amounts, offered: Mapping[str, int | None]) -> None:
        """Keep the results of an evaluation for the next one."""
        if (node := self._nodes.get(name)) is not None:
            node.last = last
            node.offered = {resource: amount for resource, amount in offered.items() if amount is not None}

    def on_requested(self, name: str, requested: Mapping[str, int | None]) -> None:
        """These amounts (by resource name) are about to be written."""
        if (node := self._nodes.get(name)) is not None:
            node.changes.on_requested(requested)

    def on_written(self, name: str, now: float) -> None:
        if (node := self._nodes.get(name)) is not None:
            node.written_at = now
            node.changes.on_written()

    def forget_writes(self) -> None:
        """Accept the amounts of all nodes as they are: another replica may have written them, not another program."""
        for node in self._nodes.values():
            node.changes = StatusChanges()

    def prune(self, now: float) -> None:
        """Drop the profiles of workloads that were not measured for a day. They have no pods any more."""
        self._profiles.prune(now - PROFILE_AGE)

    def uid(self, name: str) -> str | None:
        placement = self._messages.placements.get(name)
        return None if placement is None else placement.uid

    def _utilization(self, name: str) -> NodeUtilization | None:
        """The utilization of the node that has this name now."""
        utilization = self._messages.utilizations.get(name)
        return utilization if utilization is not None and utilization.uid == self.uid(name) else None

    def _restore(self, name: str, now: float) -> None:
        node, message = self._nodes[name], self._published.get(name)
        if message is None or message.uid != self.uid(name):
            return
        self._highest.restore(message, now)
        if not node.offered:
            node.offered = {
                resource: amount
                for band in OFFERED_BANDS
                if band in message.bands
                for resource, amount in _whole(RESOURCE_NAMES[band], message.bands[band].offered)
            }

    def _update(self, name: str, now: float) -> None:
        node, placement, utilization = self._nodes[name], self._messages.placements[name], self._utilization(name)
        if utilization is None:
            node.usage = None
            return
        node.usage = node_usage(placement, utilization, self._profiles)
        self._highest.observe(name, placement.uid, node.usage.used, now)

    def _observe_deviation(self, name: str, now: float) -> None:
        if (usage := self._nodes[name].usage) is not None:
            placement = self._messages.placements[name]
            capacity = np.array(amounts(placement.capacity))
            self.deviations.observe(
                name,
                placement.uid,
                usage.used / capacity,
                usage.typical / capacity[:, np.newaxis],
                usage.constant / capacity,
                now,
            )


def _is_measured(message: NodeUtilization) -> bool:
    """Whether the usage outside pods is known, or follows from that of the node."""
    node = next((amounts(value.mean) for value in message.windows.values()), [math.nan])
    return not any(map(math.isnan, amounts(message.system))) or not any(map(math.isnan, node))


def amounts_in_status(placement: NodePlacement) -> dict[str, int]:
    """What the node's status contains, by resource name; milli-cores and bytes."""
    bands = placement.colocation.amounts
    return {name: amount for band in bands for name, amount in _whole(RESOURCE_NAMES[band], bands[band])}


def _whole(names: tuple[str, str], resources: Resources) -> list[tuple[str, int]]:
    """The known amounts as integers, with the resource names of their band; milli-cores and bytes."""
    values = (None if resources.cpu is None else resources.cpu * 1_000, resources.memory)
    return [(name, round(value)) for name, value in zip(names, values, strict=True) if value is not None]
