"""The whole picture: the last word of every node, its placement and its workloads, kept as arrays.

State is the last message of each subject; anything lost or late is healed by the next one. What a message changes is
worked out when it comes, so that a question costs array operations only.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from equipoise.contracts.demand import Link, fresh
from equipoise.contracts.load import FUTURE_TOLERANCE, RESOURCES
from equipoise.contracts.messages import NodePlacement, NodeUtilization, PlacedPod, WorkloadUtilization
from equipoise.contracts.settings import LoadSettings
from equipoise.contracts.workload import Workload
from equipoise.scorer.hotspot import base_of, compensated_load
from equipoise.scorer.loads import Array, Flags, NodeLoads, Rows

_FIRST_ROWS = 64


class Ordered(Protocol):
    """A message that says in which order it was said."""

    @property
    def epoch(self) -> int: ...

    @property
    def sequence(self) -> int: ...


def supersedes(new: Ordered, held: Ordered) -> bool:
    """Is it as new as what we hold? The same again is taken too: it changes nothing."""
    return (new.epoch, new.sequence) >= (held.epoch, held.sequence)


class Fleet:
    """All nodes this scorer has heard of. One row per node; rows of removed nodes are used again."""

    def __init__(self, load: LoadSettings, chain: tuple[Link, ...]) -> None:
        self._settings = load
        self._chain = chain
        self._windows = tuple(window.name for window in load.windows)
        self._utilizations: dict[str, NodeUtilization] = {}
        self._placements: dict[str, NodePlacement] = {}
        self._removed_at: dict[str, float] = {}
        self._workloads: dict[Workload, WorkloadUtilization] = {}
        self._rows: dict[str, int] = {}
        self._free: list[int] = []
        # Nodes lie next to one another in memory (Fortran order): nearly every operation runs along them.
        self._load: Array = np.full((0, len(self._windows), len(RESOURCES)), np.nan)
        self._base: Array = np.full((0, len(RESOURCES)), np.nan)
        self._since: Array = np.full((0, len(self._windows)), np.inf)
        self._until: Array = np.full((0, len(self._windows)), -np.inf)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def capacity(self) -> int:
        """Rows of the arrays."""
        return len(self._load)

    @property
    def windows(self) -> tuple[str, ...]:
        return self._windows

    # what is heard

    def utilization(self, message: NodeUtilization, now: float) -> bool:
        """Take a node's usage; False when it is older than what is held.

        A new UID is a new machine under an old name. After a life without news any message is taken: a node that
        went over to a collector which began earlier must not stay unknown.
        """
        placement = self._placements.get(message.node)
        if placement is not None and placement.removed and placement.uid == message.uid:
            return False
        held = self._utilizations.get(message.node)
        if held is not None and held.uid == message.uid and not supersedes(message, held):
            silent = message.queried_at - held.queried_at > self._settings.freshness.score
            if not silent:
                return False
        self._utilizations[message.node] = message
        self._refresh(message.node, now)
        return True

    def placement(self, message: NodePlacement, now: float) -> list[PlacedPod] | None:
        """Take a node's placement; the pods it newly holds, or None when it is older than what is held."""
        held = self._placements.get(message.node)
        if held is not None and held.uid == message.uid and not supersedes(message, held):
            return None
        # A removed node's message stays for a while, so that a late one cannot bring the node back.
        self._placements[message.node] = message
        self._removed_at.pop(message.node, None)
        if message.removed:
            self._removed_at[message.node] = now
            self._utilizations.pop(message.node, None)
        self._refresh(message.node, now)
        before = frozenset(pod.uid for pod in held.pods) if held is not None else frozenset()
        return [pod for pod in message.pods if pod.uid not in before]

    def workload(self, message: WorkloadUtilization) -> bool:
        """Take a workload's usage; nodes use it from their next message on."""
        held = self._workloads.get(message.workload)
        if held is not None and not supersedes(message, held):
            silent = message.queried_at - held.queried_at > self._settings.freshness.score
            if not silent:
                return False
        self._workloads[message.workload] = message
        return True

    def forget(self, now: float) -> None:
        """Workloads and nodes come and go for ever: drop what can have no usable value any more."""
        for node, removed_at in list(self._removed_at.items()):
            if now - removed_at > self._settings.freshness.score:
                del self._removed_at[node], self._placements[node]
                self._utilizations.pop(node, None)
        for workload, message in list(self._workloads.items()):
            if fresh(message, self._settings, now) is None and now > message.queried_at:
                del self._workloads[workload]

    # what is asked

    def usage_of(self, workload: Workload | None, now: float) -> WorkloadUtilization | None:
        """What a workload's replicas use, as far as it is fresh."""
        return None if workload is None else fresh(self._workloads.get(workload), self._settings, now)

    def rows(self, names: Sequence[str]) -> Rows:
        """Each node's row; −1 for one that was never heard of."""
        return np.fromiter((self._rows.get(name, -1) for name in names), dtype=np.intp, count=len(names))

    def loads(self, rows: Rows, now: float, booked: Array | None = None) -> NodeLoads:
        """The loads of these rows and of the whole fleet, with what is booked (rows × windows × resources)."""
        load = self._load if booked is None else self._load + booked / self._base[:, np.newaxis, :]
        fleet = np.where(self._usable(now)[:, :, np.newaxis], load, np.nan)
        known = (rows >= 0)[:, np.newaxis, np.newaxis]
        if not len(fleet):
            return NodeLoads(
                windows=self._windows,
                load=np.full((len(rows), *fleet.shape[1:]), np.nan),
                base=np.full((len(rows), len(RESOURCES)), np.nan),
                fleet=fleet,
            )
        return NodeLoads(
            windows=self._windows,
            load=np.where(known, fleet[rows], np.nan),
            base=np.where(known[:, :, 0], self._base[rows], np.nan),
            fleet=fleet,
        )

    def fresh_count(self, now: float) -> int:
        """Nodes with a load that may be used."""
        return int(np.count_nonzero(np.logical_or.reduce(self._usable(now), axis=1)))

    def why_unknown(self, node: str, now: float) -> str:
        """Why this node's load is not known; empty when it is."""
        utilization, placement = self._utilizations.get(node), self._placements.get(node)
        if utilization is None:
            return "no utilization was heard of it"
        if placement is None or placement.removed:
            return "no placement was heard of it"
        if placement.uid != utilization.uid:
            return "its utilization is that of another machine of this name"
        if not utilization.windows:
            return "samples cover none of its windows"
        if not self._usable(now)[self._rows[node]].any():
            return f"its newest sample is {now - utilization.sampled_at:.1f} s old"
        return ""

    def _usable(self, now: float) -> Flags:
        usable: Flags = (self._since <= now) & (now <= self._until)
        return usable

    # rows

    def _refresh(self, node: str, now: float) -> None:
        """Work out a node's row from its last messages. A node of which one half is missing is unknown."""
        utilization, placement = self._utilizations.get(node), self._placements.get(node)
        if utilization is None or placement is None or placement.removed or placement.uid != utilization.uid:
            self._clear(node)
            return
        row = self._row(node)
        self._load[row] = compensated_load(
            utilization, placement, self._workloads, load=self._settings, chain=self._chain, now=now
        )
        self._base[row] = base_of(utilization)
        for index, window in enumerate(self._settings.windows):
            value = utilization.windows.get(window.name)
            if value is None or np.isnan(self._load[row, index]).all():
                self._since[row, index], self._until[row, index] = np.inf, -np.inf
                continue
            self._since[row, index] = max(value.sampled_at, utilization.sampled_at) - FUTURE_TOLERANCE
            self._until[row, index] = min(
                value.sampled_at + self._settings.life(window),
                utilization.sampled_at + self._settings.freshness.score,
            )

    def _row(self, node: str) -> int:
        row = self._rows.get(node)
        if row is None:
            if not self._free:
                self._grow()
            row = self._rows[node] = self._free.pop()
        return row

    def _clear(self, node: str) -> None:
        row = self._rows.pop(node, None)
        if row is not None:
            self._load[row], self._base[row] = np.nan, np.nan
            self._since[row], self._until[row] = np.inf, -np.inf
            self._free.append(row)

    def _grow(self) -> None:
        before = self.capacity
        more = max(_FIRST_ROWS, before)
        self._load = _longer(self._load, more, np.nan)
        self._base = _longer(self._base, more, np.nan)
        self._since = _longer(self._since, more, np.inf)
        self._until = _longer(self._until, more, -np.inf)
        self._free.extend(range(before + more - 1, before - 1, -1))


def _longer(array: Array, more: int, fill: float) -> Array:
    return np.asfortranarray(np.concatenate([array, np.full((more, *array.shape[1:]), fill)]))
