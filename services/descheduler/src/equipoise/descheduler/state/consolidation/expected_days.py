"""What nodes are expected to use in every hour of the day, and now, compared with the thresholds.

All of it is one row of loads for each node: CPU and memory in each hour, both now, both of production pods now if these
have thresholds, and the number of pods. The hours include the errors of the daily profiles.
"""

from equipoise.contracts.load.correction import RESOURCES, amounts
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.numeric import Array, Flags, Indexes, np
from equipoise.descheduler.decisions.cluster import ClusterView
from equipoise.descheduler.decisions.cluster_node import MovablePod
from equipoise.descheduler.decisions.consolidation.plan import HottestHour
from equipoise.descheduler.decisions.planning.node_arrays import MEASURED
from equipoise.descheduler.decisions.planning.thresholds import shares_of
from equipoise.descheduler.state.projection import Projection

HOURS = len(RESOURCES) * SLOTS
"""The first columns: the hours of CPU, then those of memory."""

_UNLIMITED = 1e6
"""The threshold (0..1) of what has none, where thresholds are added up."""

COLUMNS = HOURS + 2 * len(RESOURCES) + 1


class ExpectedDays:
    """The loads of nodes, by their index in the cluster."""

    def __init__(self, cluster: ClusterView, projection: Projection) -> None:
        """`projection`: the cluster without a move, with production if it has thresholds; it is only read."""
        self._cluster = cluster
        high, production = shares_of(cluster.thresholds.high), shares_of(cluster.thresholds.prod_high)
        # What has no threshold may still not use more than the node has.
        of_resources = [high.get(name, 1.0) for name in ("cpu", "memory")]
        self.limit: Array = np.array(
            [
                *np.repeat(of_resources, SLOTS),
                *of_resources,
                *(production.get(name, np.inf) for name in ("cpu", "memory")),
                high.get("pods", np.inf),
            ]
        )
        """The high threshold (0..1) of each column."""

        base = projection.base[:, : len(MEASURED)]  # further resources have no days
        self._base: Array = np.concatenate(
            [np.repeat(base[:, :2], SLOTS, axis=1), base[:, :2], base[:, :2], base[:, 2:]], axis=1
        )
        names = [node.name for node in cluster.nodes]
        days = cluster.days
        hours = np.full((len(names), len(RESOURCES), SLOTS), np.nan) if days is None else days.of_nodes(names)
        measured = np.zeros(len(names), dtype=np.bool_)
        errors = np.zeros((len(names), len(RESOURCES)))
        if days is not None:
            measured = np.asarray(days.measured_hours_of_nodes(names).all(axis=1), dtype=np.bool_)
            errors = days.errors_of_nodes(names)
        hours = hours + projection.terminating[:, : len(RESOURCES), np.newaxis]
        present = projection.amounts + projection.terminating
        used = np.zeros((len(names), COLUMNS))
        used[:, :HOURS] = hours.reshape(len(names), HOURS)
        used[:, HOURS : HOURS + 2] = present[:, :2]
        if production:
            complete = projection.production_complete[:, np.newaxis]
            of_production = (projection.production + projection.terminating_production)[:, :2]
            used[:, HOURS + 2 : HOURS + 4] = np.where(complete, of_production, np.nan)
        used[:, HOURS + 4] = present[:, 2] if "pods" in high else 0.0
        if "pods" not in high:
            self._base[:, HOURS + 4] = 1.0
        self.forecast: Array = used / self._base
        """Nodes × columns: loads without the errors of profiles; NaN where unknown."""

        self.expected: Array = self.forecast.copy()
        """The same with the errors."""

        self.expected[:, :HOURS] += np.repeat(errors, SLOTS, axis=1) / self._base[:, :HOURS]
        self.unrecorded = 0 if days is None else len(days.unrecorded)
        """The number of workloads whose profiles have no recorded error: a share of their mean is assumed instead."""

        self.known: Flags = measured & np.isfinite(self.forecast).all(axis=1)
        self.known &= np.array([not node.unknown for node in cluster.nodes], dtype=np.bool_)

    def of_pod(self, pod: MovablePod) -> tuple[Array, Array] | str:
        """The amounts of a pod in each column, without and with the error of its profile; why they are not known."""
        days = self._cluster.days
        day = None if days is None else days.of_pod(pod.workload, pod.usage)
        now = np.array(amounts(pod.usage))
        if days is None or day is None or np.isnan(now).any():
            return "its usage is not known"
        hours = days.measured_hours_of_pod(pod.workload)
        if not hours.all():
            return f"its day is not measured yet ({int(hours.sum())} of {SLOTS} hours)"
        columns = np.zeros(COLUMNS)
        columns[:HOURS] = np.broadcast_to(day, (len(RESOURCES), SLOTS)).ravel()
        columns[HOURS : HOURS + 2] = now
        if pod.production:
            columns[HOURS + 2 : HOURS + 4] = now
        columns[HOURS + 4] = 1.0
        with_error = columns.copy()
        with_error[:HOURS] += np.repeat(days.error_of_pod(pod.workload, pod.usage), SLOTS)
        return columns, with_error

    def loads(self, pod: Array, nodes: Indexes | int) -> Array:
        """The loads by which a pod raises those of these nodes. `pod`: see `of_pod`."""
        if np.isinf(self.limit[HOURS + 4]):
            pod = pod.copy()
            pod[HOURS + 4] = 0.0
        raised: Array = pod / self._base[nodes]
        return raised

    def headroom(self, nodes: Flags) -> Array:
        """Nodes × columns: the amounts by which these nodes stay below their thresholds, 0 for others."""
        limit = np.where(np.isinf(self.limit), _UNLIMITED, self.limit)
        below = np.maximum(limit - np.where(nodes[:, np.newaxis], self.expected, np.inf), 0.0)
        room: Array = below * np.where(nodes[:, np.newaxis], self._base, 1.0)
        return room

    def excess(self, loads: Array) -> Array:
        """How far each node is above its thresholds (0..1), in the column in which it is the most; negative below."""
        highest: Array = (loads - self.limit).max(axis=-1)
        return highest

    def hottest(self, loads: Array, nodes: Flags) -> HottestHour | None:
        """The hottest hour of these nodes, of those whose day is known."""
        rows = np.flatnonzero(nodes & self.known)
        if not len(rows):
            return None
        place, column = np.unravel_index(int(loads[rows, :HOURS].argmax()), (len(rows), HOURS))
        node, resource, hour = int(rows[place]), *divmod(int(column), SLOTS)
        return HottestHour(
            node=self._cluster.nodes[node].name,
            resource=MEASURED[resource],
            hour=hour,
            load=float(loads[node, column]),
        )

    def highest_text(self, loads: Array) -> str:
        """`78.1% cpu at 14:00 UTC`: the column in which one row of loads is the highest above its threshold."""
        column = int((loads - self.limit).argmax())
        share = f"{loads[column]:.1%}"
        if column < HOURS:
            resource, hour = divmod(column, SLOTS)
            return f"{share} {RESOURCES[resource]} at {hour:02}:00 UTC"
        present = (*RESOURCES, *(f"{name} of production" for name in RESOURCES), "of its pods")
        return f"{share} {present[column - HOURS]} now"
