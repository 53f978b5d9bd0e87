"""profile: levels the cluster's cpu and memory over the next 24 hours, instead of over the last minutes.

A node's daily load is the sum of the daily profiles of its pods. The best node is the one where the pod adds least to
Σ (node's share − cluster's mean share)² over hours and resources: where other pods use little while it uses much. An
imbalance between cpu and memory on a node counts too, so that its headroom suits later pods. Measured on a real trace
(Alibaba, 2018): plans by the peak hour leave 44 points of spread in the median hour, plans by whole days 26 to 29.
"""

from typing import ClassVar

import msgspec

from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.numeric import Array, Flags, np
from equipoise.scorer.decisions.arrays import CandidateNodes, DailyLoads, Demand, Demands, resources
from equipoise.scorer.decisions.further_points import with_further_points
from equipoise.scorer.decisions.policies.policy import ScoringPolicy, Weight


class ProfileWeights(Section, frozen=True, kw_only=True):
    """The weight of a squared point of each."""

    cpu: Weight = 1.0
    memory: Weight = 0.3
    """The weight of memory: less than that of cpu, but not 0, because a node with full memory can take no pod, even if
    its cores are idle."""

    balance: Weight = 1.0
    """The difference between cpu and memory on a node, compared with the cluster's. A node with full memory and idle
    cores can take no more pods. In the lab, this weight reduced the remaining spread by a fifth.
    """


class ProfilePolicy(ScoringPolicy, frozen=True, kw_only=True, tag="profile"):
    """Scores by the change in the cluster's deviation over the next 24 hours.

    A workload with fewer than six known hours is expected to use all day what it uses now.
    """

    resource_weights: ProfileWeights = ProfileWeights()

    further_weights: dict[str, Weight] = msgspec.field(default_factory=dict)
    """Weights of further resources by their names in `load.resources`, compared with 1 for cpu and memory together.
    Their load now counts: they have no daily profile."""

    uses_daily_loads: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.resource_weights.cpu and not self.resource_weights.memory:
            raise ValueError("resourceWeights needs at least one weight above 0")

    @property
    def further(self) -> tuple[str, ...]:
        return tuple(self.further_weights)

    def score(self, nodes: CandidateNodes, demand: Demand) -> Array:
        """50 for a node with the cluster's mean load in every hour. One point more per percentage point by which
        the node's load, weighted by the pod's usage per hour, is below the mean, and one less per point above;
        `balance` times as much for imbalance. 0 if the node would be overcommitted in some hour, or its load is
        unknown.
        """
        daily = nodes.daily
        if daily is None or not daily.share.size:
            return np.zeros(len(nodes.load))
        pod = demand.daily if demand.daily is not None else np.repeat(demand.usage[0][:, np.newaxis], SLOTS, axis=1)
        matrix, count = self._matrix, len(nodes.load)
        # From here on nodes are the last axis, so that every operation runs along them.
        base, reserved = nodes.base.T, daily.reserved.T
        shares = daily.share.reshape(count, -1)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            per_unit = 1.0 / base
            # (d + p)² − d² = 2dp + p², with d the distance to the cluster's mean and p the pod, as shares. The sums
            # over hours are products of matrices, because p·base is the same for all nodes.
            of_distance = 2.0 * matrix[:, :, np.newaxis] * pod[:, np.newaxis]  # resources of p and d × slots
            by_slot = of_distance.reshape(len(RESOURCES), -1)
            products = of_distance.sum(axis=2) @ reserved
            products += (matrix * (pod @ pod.T)) @ per_unit
            products -= (by_slot @ daily.mean.reshape(-1))[:, np.newaxis]
            for row, weights in enumerate(by_slot):  # two products with a vector are faster than one with a matrix
                products[row] += shares @ weights
            products *= per_unit
            cost = products.sum(axis=0)
            unit = 2.0 * float(pod.sum(axis=1) / daily.base @ (self.resource_weights.cpu, self.resource_weights.memory))
            full = self._full(daily, pod, base)
        # Faster than `clip`, for few nodes.
        points = np.minimum(np.maximum(50.0 - 100.0 * cost / unit, 1.0), 100.0) if unit > 0.0 else np.full(count, 50.0)
        points[full | ~np.isfinite(cost) | np.isnan(nodes.load).all(axis=(1, 2))] = 0.0
        return with_further_points(points, nodes, self.further_weights)

    @staticmethod
    def _full(daily: DailyLoads, pod: Array, base: Array) -> Flags:
        """Whether the pod (resources × slots) would overcommit each node in some hour."""
        room = (1.0 - daily.peak.T - daily.reserved.T) * base
        full: Flags = np.logical_or.reduce(room < pod.min(axis=1, keepdims=True))
        possible = np.logical_or.reduce(room < pod.max(axis=1, keepdims=True))
        # The hours are compared only where the peaks do not decide.
        near = np.flatnonzero(possible > full)
        if len(near):
            hours = (1.0 - daily.reserved.take(near, axis=0))[:, :, np.newaxis] - daily.share.take(near, axis=0)
            hours *= base.take(near, axis=1).T[:, :, np.newaxis]
            full[near] = np.logical_or.reduce((hours < pod).reshape(len(near), -1), axis=1)
        return full

    @property
    def _matrix(self) -> Array:
        """resources × resources: what the product of two shares costs."""
        weights = self.resource_weights
        return np.array(
            [
                [weights.cpu + weights.balance, -weights.balance],
                [-weights.balance, weights.memory + weights.balance],
            ]
        )

    def score_pods(self, nodes: CandidateNodes, demands: Demands) -> Array:
        """The same as `score`: the cost is a sum of products of a term of the pod and a term of the node, so one
        product of matrices has the costs of all pods on all nodes.
        """
        daily, pods = nodes.daily, demands.daily
        if daily is None or not daily.share.size:
            return np.zeros((len(demands), len(nodes.load)))
        base, weights, reserved = nodes.base.T, self.resource_weights, daily.reserved.T
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            # resources × slots × nodes: the distance of each node to the cluster's mean.
            cpu, memory = (
                daily.share[:, resource].T - daily.mean[resource][:, np.newaxis] + reserved[resource]
                for resource in range(len(RESOURCES))
            )
            difference = weights.balance * (cpu - memory)
            # The terms of the nodes, and below those of the pods in the same order: for cpu in each hour, for memory in
            # each hour, for the squares of cpu and of memory, and for their product.
            of_nodes = np.concatenate(
                [
                    2.0 * (weights.cpu * cpu + difference) / base[0],
                    2.0 * (weights.memory * memory - difference) / base[1],
                    np.array(
                        [
                            (weights.cpu + weights.balance) / base[0] ** 2,
                            (weights.memory + weights.balance) / base[1] ** 2,
                            -2.0 * weights.balance / base[0] / base[1],
                        ]
                    ),
                ]
            )
            squares = np.einsum("prs,pqs->prq", pods, pods)
            of_pods = np.concatenate(
                [pods[:, 0], pods[:, 1], squares[:, 0, :1], squares[:, 1, 1:], squares[:, 0, 1:]], axis=1
            )
            unit = 2.0 * (pods.sum(axis=2) / daily.base) @ (weights.cpu, weights.memory)
            none = ~(unit > 0.0)
            of_pods *= np.where(none, 0.0, -100.0 / unit)[:, np.newaxis]
            points = of_pods @ np.where(np.isfinite(of_nodes), of_nodes, 0.0)
            points += 50.0
            np.clip(points, 1.0, 100.0, out=points)
            for resource in range(len(RESOURCES)):
                self._clear_full(points, daily, pods[:, resource], base[resource], reserved[resource], resource)
        has_known_load = ~np.isnan(nodes.load).all(axis=(1, 2)) & np.isfinite(of_nodes).all(axis=0)
        points[:, ~has_known_load] = 0.0
        return with_further_points(points, nodes, self.further_weights)

    def _clear_full(
        self, points: Array, daily: DailyLoads, pods: Array, base: Array, reserved: Array, resource: int
    ) -> None:
        """Set the points of pods (pods × slots) to 0 on the nodes that they would overcommit in some hour."""
        peaks = pods.max(axis=1)
        # The hours are compared only where the sum of the peaks exceeds the node.
        near = np.flatnonzero((1.0 - daily.peak[:, resource] - reserved) * base < peaks.max(initial=0.0))
        room = ((1.0 - daily.share[near, resource] - reserved[near, np.newaxis]) * base[near, np.newaxis]).T
        full = np.zeros((len(pods), len(near)), np.bool_)
        for hour in range(SLOTS):
            full |= pods[:, hour, np.newaxis] > room[hour]
        points[:, near] = np.where(full, 0.0, points[:, near])

    def level(self, nodes: CandidateNodes) -> Resources:
        """The cluster's mean over the next 24 hours."""
        return Resources() if nodes.daily is None else resources(nodes.daily.mean.mean(axis=1))
