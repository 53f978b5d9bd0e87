"""The gain of moving each pod to each node, as one table that is updated while a plan is made.

The unevenness of a cluster is the sum over its nodes of the squared distance between their load and the cluster's. It
is a weighted mean over the hours of the forecast day and the current load, and over CPU and memory. A pod of usage p
that arrives on a node of base b at distance d changes the sum by Σ 2·d·p/b + (p/b)²; one that leaves by Σ −2·d·p/b +
(p/b)². So the table for all pods and nodes is a product of matrices.

Each node and pod has two usages. The usage of a pod that leaves a node is the part explained by measurements on that
node; on the node where it arrives, it is added to all usage that is expected there. So no pod is evicted because of
load that may never come, and none is moved to a node where such load may come. The mean is that of the explained usage,
so usage that is only expected makes no other node hot.
"""

import math
from collections.abc import Sequence

import msgspec

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.numeric import Array, Flags, Indexes, np
from equipoise.descheduler.decisions.cluster_node import MovablePod
from equipoise.descheduler.decisions.planning.node_arrays import REQUEST_TOLERANCE

_BLOCK = 64
"""Pods computed together, so that intermediate results stay in the processor's cache."""

_ROUNDING = 1e-12
"""Rounding error of sums, in squared shares."""


class SingleMove(msgspec.Struct, frozen=True, kw_only=True):
    """A single move."""

    pod: int
    target: int
    gain: float


class MovePair(msgspec.Struct, frozen=True, kw_only=True):
    """Two moves: `first` leaves `target` for `elsewhere`; then `second`, which did not fit before, goes to `target`."""

    first: int
    elsewhere: int
    second: int
    target: int
    gain: float
    """The gain of both moves together."""


class DayGainTable:
    """Pods are rows, nodes are columns in the order of the cluster. Gains are in squared shares."""

    def __init__(
        self, used: Array, explained: Array, base: Array, room: Array, *, slots: Array, resources: Array
    ) -> None:
        """`used`: nodes × resources × slots, cores and bytes, NaN for a node without a forecast, which is ignored;
        `explained`: the part of `used` that measurements explain; `base`: nodes × resources; `room`: nodes × (cores,
        bytes, pods) that are not requested.

        `slots`, `resources`: their weights; those of the slots sum to 1.
        """
        self.known: Flags = ~np.isnan(
            np.concatenate([used.reshape(len(used), math.prod(used.shape[1:])), base], axis=1)
        ).any(axis=1)
        self.base = np.where(self.known[:, np.newaxis], base, 1.0)
        self.used = np.where(self.known[:, np.newaxis, np.newaxis], used, 0.0)
        self.explained = np.where(self.known[:, np.newaxis, np.newaxis], explained, 0.0)
        self._room = room.copy()
        self._slots, self._resources = slots, resources
        total = self.base[self.known].sum(axis=0)
        self.mean: Array = self.explained[self.known].sum(axis=0) / np.where(total > 0, total, 1.0)[:, np.newaxis]
        """resources × slots: the load of every node in an even cluster."""

        self.pods: list[MovablePod] = []
        nodes = len(base)
        self.location: Indexes = np.zeros(0, dtype=np.int64)
        """The node of each pod."""

        self._workload: Indexes = np.zeros(0, dtype=np.int64)
        self._workloads: dict[Workload | None, int] = {}
        self.day = np.zeros((0, *used.shape[1:]))
        """Pods × resources × slots: cores and bytes."""

        self._explained_day = self.day
        """The part of `day` that measurements explain."""

        self._requests = np.zeros((0, room.shape[1]))
        self._squares = np.zeros((0, base.shape[1]))
        self._gain = np.zeros((0, nodes))
        """Pods × nodes: the amount by which the move would reduce the sum."""

        self._excluded = np.zeros((0, nodes), dtype=np.bool_)
        """Pods × nodes: whether the move is excluded for the rest of the plan."""

        self._best: Indexes = np.zeros(0, dtype=np.int64)
        self._best_gain = np.zeros(0)

    def distance(self, used: Array) -> Array:
        """Nodes × resources × slots: load minus that of the cluster; 0 for a node without a forecast.

        `used`: `self.used`, or `self.explained`.
        """
        shares = used / self.base[:, :, np.newaxis]
        distance: Array = np.where(self.known[:, np.newaxis, np.newaxis], shares - self.mean, 0.0)
        return distance

    def add(
        self, pods: Sequence[MovablePod], locations: Sequence[int], days: Array, explained: Array, allowed: Flags
    ) -> None:
        """Adds pods with their usage and its explained part (pods × resources × slots).

        `allowed`: per node, whether it may be a target.
        """
        amounts = [pod.info.requests for pod in pods]
        requests = [(amount.get("cpu", 0) / 1_000, float(amount.get("memory", 0)), 1.0) for amount in amounts]
        self.pods += pods
        self.location = np.concatenate([self.location, np.array(locations, dtype=np.int64)])
        numbers = [self._workloads.setdefault(pod.workload, len(self._workloads)) for pod in pods]
        self._workload = np.concatenate([self._workload, np.array(numbers, dtype=np.int64)])
        self.day = np.concatenate([self.day, days])
        self._explained_day = np.concatenate([self._explained_day, explained])
        self._requests = np.concatenate([self._requests, np.array(requests)])
        self._squares = np.concatenate([self._squares, (days * days) @ self._slots])
        excluded = np.repeat(~(allowed & self.known)[np.newaxis], len(pods), axis=0)
        excluded[np.arange(len(pods)), locations] = True
        self._excluded = np.concatenate([self._excluded, excluded])
        new = np.arange(len(self.pods) - len(pods), len(self.pods))
        everywhere = np.arange(len(self.base))
        self._gain = np.concatenate([self._gain, self._gains(new, everywhere)])
        self._best = np.concatenate([self._best, np.zeros(len(pods), dtype=np.int64)])
        self._best_gain = np.concatenate([self._best_gain, np.zeros(len(pods))])
        self._find_best(new)

    def best_gains(self, rows: Indexes) -> Array:
        """The largest gain of one of these pods on each node, whether it fits or not; −∞ where all are excluded."""
        if not len(rows):
            return np.full(len(self.base), -np.inf)
        gains: Array = np.where(self._excluded[rows], -np.inf, self._gain[rows]).max(axis=0)
        return gains

    def exclude(self, pod: int, nodes: Flags | int) -> None:
        """Excludes moves of the pod to these nodes for the rest of the plan."""
        self._excluded[pod, nodes] = True
        self._find_best(np.array([pod]))

    def valid(self, pair: MovePair) -> bool:
        """Whether both moves of a pair are still possible after nodes were excluded."""
        return (
            bool(self._best[pair.first] == pair.elsewhere and np.isfinite(self._best_gain[pair.first]))
            and not (self._excluded[pair.second, pair.target])
        )

    def keep(self, pod: int) -> None:
        """Excludes all moves of the pod for the rest of the plan."""
        self._excluded[pod] = True
        self._find_best(np.array([pod]))

    def best_single(self, rows: Indexes) -> SingleMove | None:
        """The move of one of these pods with the largest gain, among those whose requests fit."""
        if not len(rows):
            return None
        row = int(rows[self._best_gain[rows].argmax()])
        gain = float(self._best_gain[row])
        return SingleMove(pod=row, target=int(self._best[row]), gain=gain) if gain > 0 else None

    def promising(self, rows: Indexes) -> Indexes:
        """The pods among these with a positive gain on block node, whether they fit or not; the largest gain first."""
        gains = np.where(self._excluded[rows], -np.inf, self._gain[rows]).max(axis=1, initial=-np.inf)
        ordered: Indexes = rows[np.argsort(-gains, kind="stable")]
        return ordered[: int((gains > 0).sum())]

    def best_pairs(self, seconds: Indexes, *, most: int, min_gain: float) -> list[MovePair]:
        """The best pairs of moves with a gain above `min_gain`, at most `most`, best first.

        In each pair, one of the pods `seconds` is moved, and another pod makes room for it on its target.
        """
        seconds, firsts = self._likely_pairs(seconds, min_gain)
        if not len(seconds):
            return []
        targets = self.location[firsts]
        at = np.ix_(seconds, targets)
        single_gain = np.where(self._excluded[at], -np.inf, self._gain[at])
        gains = single_gain + self._best_gain[firsts]
        gains[self._pointless(seconds, targets, self._requests[firsts], single_gain)] = -np.inf
        gains[self._workload[seconds][:, np.newaxis] == self._workload[firsts]] = -np.inf
        # Usage of both pods in the same hours adds to the gain on the node where one pod replaces the other. That is
        # the target, and also the source if the first pod moves to it.
        back = np.nonzero(np.isfinite(gains) & (self._best[firsts] == self.location[seconds][:, np.newaxis]))
        for resource, weight in enumerate(self._resources):
            common = (self.day[seconds, resource] * self._slots) @ self.day[firsts, resource].T
            gains += common * (2.0 * weight / self.base[targets, resource] ** 2)
            leaving, arriving = (self._explained_day[pods, resource] for pods in (seconds[back[0]], firsts[back[1]]))
            common_back = np.einsum("ps,ps,s->p", leaving, arriving, self._slots)
            gains[back] += common_back * (2.0 * weight / self.base[self.location[seconds[back[0]]], resource] ** 2)
        flat = gains.ravel()
        indexes = np.flatnonzero(flat > min_gain)
        if len(indexes) > most:
            indexes = indexes[np.argpartition(-flat[indexes], most)[:most]]
        return [
            MovePair(
                first=int(firsts[first]),
                elsewhere=int(self._best[firsts[first]]),
                second=int(seconds[second]),
                target=int(targets[first]),
                gain=float(flat[index]),
            )
            for index in indexes[np.argsort(-flat[indexes], kind="stable")]
            for second, first in (divmod(int(index), len(firsts)),)
        ]

    def _likely_pairs(self, seconds: Indexes, min_gain: float) -> tuple[Indexes, Indexes]:
        """The pods among these that may gain more than `min_gain` in a pair, and the other pods of such pairs.

        It is computed with bounds per node, because there are far fewer nodes than pods. By Cauchy and Schwarz the
        common usage of two pods in the same hours is at most the root of the product of their squares.
        """
        firsts = np.flatnonzero(np.isfinite(self._best_gain))
        targets, index = np.unique(self.location[firsts], return_inverse=True)
        if not len(seconds) or not len(firsts):
            return seconds[:0], firsts[:0]
        most = np.full(len(targets), -np.inf)
        np.maximum.at(most, index, self._best_gain[firsts])
        sizes = np.zeros((len(targets), len(self._resources)))
        np.maximum.at(sizes, index, np.sqrt(self._squares[firsts]))
        requested = np.zeros((len(targets), self._requests.shape[1]))
        np.maximum.at(requested, index, self._requests[firsts])
        back = np.zeros((len(self.base), len(targets)), dtype=np.bool_)
        back[self._best[firsts], index] = True
        at, locations = np.ix_(seconds, targets), self.location[seconds]
        single_gain = np.where(self._excluded[at], -np.inf, self._gain[at])
        bound = single_gain + most
        for resource, weight in enumerate(self._resources):
            common = 2.0 * weight * np.outer(np.sqrt(self._squares[seconds, resource]), sizes[:, resource])
            bound += common / self.base[targets, resource] ** 2
            bound += np.where(back[locations], common / self.base[locations, resource, np.newaxis] ** 2, 0.0)
        likely = (bound > min_gain - _ROUNDING) & ~self._pointless(seconds, targets, requested, single_gain)
        return seconds[likely.any(axis=1)], firsts[likely.any(axis=0)[index]]

    def _pointless(self, seconds: Indexes, nodes: Indexes, freed: Array, single_gain: Array) -> Flags:
        """seconds × nodes: whether a pair cannot help a pod, because the requests `freed` on the node (nodes ×
        resources) are too small for it, or because it needs no other pod to leave.

        A pod needs no other to leave if it fits and its move has a positive gain (`single_gain`).
        """
        short, needless = np.zeros(single_gain.shape, dtype=np.bool_), single_gain > 0
        for column, requested in enumerate(self._requests[seconds].T):
            room = self._room[nodes, column] + REQUEST_TOLERANCE[column]
            short |= requested[:, np.newaxis] > room + freed[:, column]
            needless &= requested[:, np.newaxis] <= room
        pointless: Flags = short | needless
        return pointless

    def move(self, pod: int, target: int) -> None:
        """Moves the pod, which does not move again in this plan."""
        source = int(self.location[pod])
        for node, sign in ((source, -1.0), (target, 1.0)):
            self.used[node] += sign * self.day[pod]
            self.explained[node] += sign * self._explained_day[pod]
            self._room[node] -= sign * self._requests[pod]
        self.location[pod] = target
        self._excluded[pod] = True
        changed = np.array([source, target])
        everyone = np.arange(len(self.pods))
        on_changed = np.flatnonzero(np.isin(self.location, changed))
        self._gain[:, changed] = self._gains(everyone, changed)
        self._gain[on_changed] = self._gains(on_changed, np.arange(len(self.base)))
        self._find_best_after(source, target)

    def _gains(self, pods: Indexes, nodes: Indexes) -> Array:
        """pods × nodes: the gains as one product of matrices, with the terms of pod and node, of the node, and of the
        pod."""
        base, location = self.base, self.location[pods]
        weights = self._slots * self._resources[:, np.newaxis]
        from_source = (self.distance(self.explained) / base[:, :, np.newaxis])[location]
        explained = self._explained_day[pods] / base[location][:, :, np.newaxis]
        leaving = np.einsum("prs,prs,rs->p", explained, explained, weights)
        leaving -= 2.0 * np.einsum("prs,prs,rs->p", self._explained_day[pods], from_source, weights)
        along = self.distance(self.used) / base[:, :, np.newaxis]
        days, squares = self.day[pods] * weights, self._squares[pods] * self._resources
        flat = math.prod(days.shape[1:])
        left = np.concatenate([2.0 * days.reshape(len(pods), flat), squares, leaving[:, np.newaxis]], axis=1)
        ones = np.ones((len(nodes), 1))
        right = np.concatenate([along[nodes].reshape(len(nodes), flat), base[nodes] ** -2.0, ones], axis=1)
        gains: Array = -left @ right.T
        return gains

    def _find_best_after(self, *changed: int) -> None:
        """Does the same as `_find_best` for every pod after a move between these nodes. Only their columns have
        changed."""
        lost = np.isin(self._best, changed) | np.isin(self.location, changed)
        self._find_best(np.flatnonzero(lost))
        others = np.flatnonzero(~lost)
        for node in changed:
            fits = ~self._excluded[others, node] & (self._requests[others] <= self._room[node] + REQUEST_TOLERANCE).all(
                axis=1
            )
            gains = np.where(fits, self._gain[others, node], -np.inf)
            # Of nodes with the same gain the first one is the best.
            best = self._best_gain[others]
            reduced = (gains > best) | ((gains == best) & (node < self._best[others]))
            self._best[others[reduced]] = node
            self._best_gain[others[reduced]] = gains[reduced]

    def _find_best(self, pods: Indexes) -> None:
        """Finds, for each pod, the node with the largest gain on which its requests fit."""
        for begin in range(0, len(pods), _BLOCK):
            block = pods[begin : begin + _BLOCK]
            gains = np.where(self._excluded[block], -np.inf, self._gain[block])
            best = gains.argmax(axis=1)
            # The pod usually fits on the best node. All nodes are checked only for the others.
            crowded = np.flatnonzero(~(self._requests[block] <= self._room[best] + REQUEST_TOLERANCE).all(axis=1))
            for column in range(self._room.shape[1]) if len(crowded) else ():
                room = self._room[np.newaxis, :, column] + REQUEST_TOLERANCE[column]
                gains[crowded] = np.where(
                    self._requests[block[crowded], column, np.newaxis] <= room, gains[crowded], -np.inf
                )
            best[crowded] = gains[crowded].argmax(axis=1)
            self._best[block] = best
            self._best_gain[block] = gains[np.arange(len(block)), best]
