"""profile: levels the cluster's cpu and memory over the next 24 hours, instead of over the last minutes.

A node's daily load is the sum of the daily profiles of its pods. The best node is the one where the pod adds least to
Σ (node's share − cluster's mean share)² over hours and resources: where other pods use little while it uses much. An
imbalance between cpu and memory on a node counts too, so that its headroom suits later pods. Measured on a real trace
(Alibaba, 2018): plans by the peak hour leave 44 points of spread in the median hour, plans by whole days 26 to 29.
"""

from typing import ClassVar

from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.numeric import Array, np
from equipoise.scorer.decisions.policies.policy import ScoringPolicy, Weight
from equipoise.scorer.state.arrays import CandidateNodes, DailyLoads, Demand, Demands, resources


class ProfileWeights(Section, frozen=True, kw_only=True):
    """The weight of a squared point of each."""

    cpu: Weight = 1.0
    memory: Weight = 0.3
    """Less than cpu, but not 0: a node with full memory can take no pod, even if its cores are idle."""

    balance: Weight = 1.0
    """The difference between cpu and memory on a node, compared with the cluster's. A node with full memory and idle
    cores can take no more pods. In the lab, this weight reduced the remaining spread by a fifth.
    """


class ProfilePolicy(ScoringPolicy, frozen=True, kw_only=True, tag="profile"):
    """Scores by the change in the cluster's deviation over the next 24 hours.

    A workload with fewer than six known hours is expected to use all day what it uses now.
    """

    resource_weights: ProfileWeights = ProfileWeights()

    uses_daily_loads: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.resource_weights.cpu and not self.resource_weights.memory:
            raise ValueError("resourceWeights needs at least one weight above 0")

    def score(self, nodes: CandidateNodes, demand: Demand) -> Array:
        """50 for a node with the cluster's mean load in every hour. One point more per percentage point by which
        the node's load, weighted by the pod's usage per hour, is below the mean, and one less per point above;
        `balance` times as much for imbalance. 0 if the node would be overcommitted in some hour, or its load is
        unknown.
        """
        daily = nodes.daily
        if daily is None or not daily.share.size:
            return np.zeros(len(nodes.load))
        rows = daily.rows
        pod = demand.daily if demand.daily is not None else np.repeat(demand.usage[0][:, np.newaxis], SLOTS, axis=1)
        base = nodes.base.T
        with np.errstate(over="ignore", invalid="ignore"):
            reserved = daily.reserved[:, rows]
            few = len(rows) * 4 < daily.share.shape[1]
            # products[r][p]: distance of the node to the cluster's mean in resource r × the pod's share of resource p.
            products = []
            for resource in range(len(RESOURCES)):
                share = daily.share[resource]
                usage = share[rows] @ pod.T if few else (share @ pod.T)[rows]
                in_reservations = np.outer(reserved[resource], pod.sum(axis=1))
                products.append((usage - pod @ daily.mean[resource] + in_reservations).T / base)
            squares = (pod @ pod.T)[:, :, np.newaxis] / base / base[:, np.newaxis]
            weights = self.resource_weights
            # (d + p)² − d² = 2dp + p², with d the distance to the cluster's mean and p the pod, as shares.
            cost = weights.cpu * (2.0 * products[0][0] + squares[0, 0])
            cost = cost + weights.memory * (2.0 * products[1][1] + squares[1, 1])
            if weights.balance:
                imbalance = products[0][0] - products[0][1] - products[1][0] + products[1][1]
                cost += weights.balance * (2.0 * imbalance + squares[0, 0] - 2.0 * squares[0, 1] + squares[1, 1])
            unit = 2.0 * float(pod.sum(axis=1) / daily.base @ (weights.cpu, weights.memory))
            full = np.zeros(len(nodes.load), np.bool_)
            for resource, usage in enumerate(pod):
                # The sum per hour is computed only if the sum of the peaks exceeds the node.
                peak = daily.peak[resource][rows] + reserved[resource] + usage.max() / base[resource]
                near = np.flatnonzero(peak > 1.0)
                others = daily.share[resource][rows[near]]
                hours = others + (reserved[resource, near] + usage[:, np.newaxis] / base[resource, near]).T
                full[near] |= (hours > 1.0).any(axis=1)
        known = (rows >= 0) & ~np.isnan(nodes.load).all(axis=(1, 2)) & np.isfinite(cost)
        points = 50.0 - 100.0 * cost / unit if unit > 0.0 else np.full(len(cost), 50.0)
        scores: Array = np.where(known & ~full, np.clip(points, 1.0, 100.0), 0.0)
        return scores

    def score_pods(self, nodes: CandidateNodes, demands: Demands) -> Array:
        """As `score`: the cost is a sum of products of a term of the pod and a term of the node, so one product of
        matrices has the costs of all pods on all nodes.
        """
        daily, pods = nodes.daily, demands.daily
        if daily is None or not daily.share.size:
            return np.zeros((len(demands), len(nodes.load)))
        rows, base, weights = daily.rows, nodes.base.T, self.resource_weights
        reserved = daily.reserved[:, rows]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            # resources × slots × nodes: the distance of each node to the cluster's mean.
            cpu, memory = (
                daily.share[resource][rows].T - daily.mean[resource][:, np.newaxis] + reserved[resource]
                for resource in range(len(RESOURCES))
            )
            difference = weights.balance * (cpu - memory)
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
        known = (rows >= 0) & ~np.isnan(nodes.load).all(axis=(1, 2)) & np.isfinite(of_nodes).all(axis=0)
        points[:, ~known] = 0.0
        scores: Array = points
        return scores

    def _clear_full(
        self, points: Array, daily: DailyLoads, pods: Array, base: Array, reserved: Array, resource: int
    ) -> None:
        """Set the points of pods (pods × slots) to 0 on the nodes that they would overcommit in some hour."""
        rows, peaks = daily.rows, pods.max(axis=1)
        # The hours are compared only where the sum of the peaks exceeds the node.
        near = np.flatnonzero((1.0 - daily.peak[resource][rows] - reserved) * base < peaks.max(initial=0.0))
        room = ((1.0 - daily.share[resource][rows[near]] - reserved[near, np.newaxis]) * base[near, np.newaxis]).T
        full = np.zeros((len(pods), len(near)), np.bool_)
        for hour in range(SLOTS):
            full |= pods[:, hour, np.newaxis] > room[hour]
        points[:, near] = np.where(full, 0.0, points[:, near])

    def level(self, nodes: CandidateNodes) -> Resources:
        """The cluster's mean over the next 24 hours."""
        return Resources() if nodes.daily is None else resources(nodes.daily.mean.mean(axis=1))
