"""What nodes are expected to use in every hour of the day, and now, compared with the thresholds.

All of it is one row of loads for each node: CPU and memory in each hour, then what has no days: every measured resource
now, further ones and the number of pods included, and that of production pods now. The hours include the errors of the
daily profiles.
"""

from equipoise.contracts.load.correction import RESOURCES, amounts
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.numeric import Array, Flags, Indexes, np
from equipoise.descheduler.decisions.cluster import ClusterView
from equipoise.descheduler.decisions.cluster_node import MovablePod
from equipoise.descheduler.decisions.consolidation.plan import HottestHour
from equipoise.descheduler.decisions.planning.node_arrays import MEASURED, amount_of, row
from equipoise.descheduler.decisions.planning.thresholds import filling
from equipoise.descheduler.state.projection import Projection

HOURS = len(RESOURCES) * SLOTS
"""The first columns: the hours of CPU, then those of memory."""

_UNLIMITED = 1e6
"""The threshold (0..1) of what has none, where thresholds are added up."""

_UNLIMITED_AMOUNT = 1e18
"""The amount of a further resource that a node does not have, where amounts are added up."""


class ExpectedDays:
    """The loads of nodes, by their index in the cluster."""

    def __init__(self, cluster: ClusterView, projection: Projection) -> None:
        """`projection`: the cluster without a move, with production if it has thresholds; it is only read."""
        self._cluster = cluster
        applied, production = filling(cluster.thresholds)
        # What has no threshold may still not use more than the node has.
        high = {"cpu": 1.0, "memory": 1.0, **applied.ceiling}
        hourly = [name for name in RESOURCES for _ in range(SLOTS)]
        self._resources = (*hourly, *projection.columns, *MEASURED)
        """The resource of each column."""

        self._further = projection.further
        self._of_production = HOURS + len(projection.columns)
        """The first column of production pods."""

        self.limit: Array = np.array(
            [
                *np.repeat([high[name] for name in RESOURCES], SLOTS),
                *row(high, missing=np.inf, columns=projection.columns),
                *row({} if production is None else production.ceiling, missing=np.inf),
            ]
        )
        """The high threshold (0..1) of each column."""

        self._limited: Flags = np.isfinite(self.limit)
        base = projection.base
        self._base: Array = np.concatenate(
            [np.repeat(base[:, :2], SLOTS, axis=1), base, base[:, : len(MEASURED)]], axis=1
        )
        self._base[:, ~self._limited] = 1.0
        names = [node.name for node in cluster.nodes]
        days = cluster.days
        hours = np.full((len(names), len(RESOURCES), SLOTS), np.nan) if days is None else days.of_nodes(names)
        self._measured: Flags = np.zeros(len(names), dtype=np.bool_)
        errors = np.zeros((len(names), len(RESOURCES)))
        if days is not None:
            self._measured = np.asarray(days.measured_hours_of_nodes(names).all(axis=1), dtype=np.bool_)
            errors = days.errors_of_nodes(names)
        hours = hours + projection.terminating[:, : len(RESOURCES), np.newaxis]
        of_production = (projection.production + projection.terminating_production)[:, : len(MEASURED)]
        of_production[~projection.production_complete] = np.nan
        present = projection.amounts + projection.terminating
        used = np.concatenate([hours.reshape(len(names), HOURS), present, of_production], axis=1)
        used[:, ~self._limited] = 0.0
        self.forecast: Array = used / self._base
        """Nodes × columns: loads without the errors of profiles; NaN where unknown."""

        self.expected: Array = self.forecast.copy()
        """The same with the errors."""

        self.expected[:, :HOURS] += np.repeat(errors, SLOTS, axis=1) / self._base[:, :HOURS]
        self.unrecorded = 0 if days is None else len(days.unrecorded)
        """The number of workloads whose profiles have no recorded error: a share of their mean is assumed instead."""

        self.known: Flags = self._measured & np.isfinite(self.forecast).all(axis=1)
        self.known &= np.array([not node.unknown for node in cluster.nodes], dtype=np.bool_)

    def why_unknown(self, index: int) -> str:
        """Why the loads of a node are not known."""
        node = self._cluster.nodes[index]
        if node.unknown or not self._measured[index]:
            return node.unknown or "its day is not measured yet"
        columns = np.flatnonzero(~np.isfinite(self.forecast[index]) & self._limited)
        resources = dict.fromkeys(self._resources[column] for column in columns)
        return f"its usage of {' and '.join(resources)} is not known"

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
        columns = np.zeros(len(self.limit))
        columns[:HOURS] = np.broadcast_to(day, (len(RESOURCES), SLOTS)).ravel()
        columns[HOURS : self._of_production] = amount_of(pod, self._further)
        if pod.production:
            columns[self._of_production :] = amount_of(pod)
        columns[~self._limited] = 0.0
        with_error = columns.copy()
        with_error[:HOURS] += np.repeat(days.error_of_pod(pod.workload, pod.usage), SLOTS)
        return columns, with_error

    def loads(self, pod: Array, nodes: Indexes | int) -> Array:
        """The loads by which a pod raises those of these nodes. `pod`: see `of_pod`."""
        raised: Array = pod / self._base[nodes]
        return raised

    def headroom(self, nodes: Flags) -> Array:
        """Nodes × columns: the amounts by which these nodes stay below their thresholds, 0 for others."""
        limit = np.where(np.isinf(self.limit), _UNLIMITED, self.limit)
        below = np.maximum(limit - np.where(nodes[:, np.newaxis], self.expected, np.inf), 0.0)
        room: Array = below * np.where(nodes[:, np.newaxis], np.minimum(self._base, _UNLIMITED_AMOUNT), 1.0)
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
        share, resource = f"{loads[column]:.1%}", self._resources[column]
        if column < HOURS:
            return f"{share} {resource} at {column % SLOTS:02}:00 UTC"
        if column >= self._of_production:
            return f"{share} {'of its production pods' if resource == 'pods' else f'{resource} of production'} now"
        return f"{share} {'of its pods' if resource == 'pods' else resource} now"
