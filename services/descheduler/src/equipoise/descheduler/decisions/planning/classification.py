"""Decides whether a node is hot, idle, between the thresholds, or of unknown load."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import msgspec

from equipoise.contracts.configuration.settings import PressureThresholds, ResourceThresholds
from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.load.pressure import CONTENDED_RESOURCES, RELIEVED, contention_text, waiting_of
from equipoise.contracts.messages.descheduling import NodeClassification, NodeState
from equipoise.contracts.numeric import Array, Flags, np
from equipoise.descheduler.decisions.cluster_node import ClusterNode, Resource
from equipoise.descheduler.decisions.planning.node_arrays import (
    MEASURED,
    amounts,
    bases,
    expected_amounts,
    production_amounts,
    row,
)
from equipoise.descheduler.decisions.planning.pools import PoolMembers
from equipoise.descheduler.decisions.planning.thresholds import (
    AppliedThresholds,
    KnownLoads,
    deviating,
    fixed,
    shares_of,
    with_further,
)

ONLY_EXPECTED = "only by what is expected of pods that are not measured yet"

Scope = Literal["node", "prod"]
"""The usage that is compared with thresholds: of the whole node, or of its production pods."""

SCOPES: tuple[Scope, ...] = ("node", "prod")
"""The order in which moves are planned. The usage of production pods counts only if the whole node is not hot."""


class CurrentLoads(msgspec.Struct, frozen=True, kw_only=True):
    """Current loads over the windows of a strategy. Arrays of nodes × resources, load (0..1), NaN is unknown."""

    least: Array
    """The minimum over all windows."""

    most: Array
    """The maximum over all windows."""

    first: Array
    """The load over the first window."""

    least_measured: Array
    """The same as `least`, without what is only expected."""

    first_measured: Array
    """The same as `first`, without what is only expected."""

    production: Array
    production_complete: Flags
    """Whether the usage of all production pods is known, per node."""

    base: Array
    """The amounts that are a load of 1."""


def current_loads(
    nodes: Sequence[ClusterNode], windows: Sequence[str], *, production: bool, further: Sequence[str] = ()
) -> CurrentLoads:
    """The loads of these nodes. `production`: whether that of production pods is needed; otherwise it is unknown."""
    base = bases(nodes, further)
    loads = np.stack([amounts(nodes, window, projected=False, further=further) / base for window in windows])
    expected = np.stack([expected_amounts(nodes, window, further) / base for window in windows])
    measured = np.maximum(loads - expected, 0.0)
    used, complete = np.full(base.shape, np.nan), np.zeros(len(nodes), bool)
    if production:
        used, complete = production_amounts(nodes, further)
    return CurrentLoads(
        least=loads.min(axis=0),
        most=loads.max(axis=0),
        first=loads[0],
        least_measured=measured.min(axis=0),
        first_measured=measured[0],
        production=used / base,
        production_complete=complete,
        base=base,
    )


def within(load: Array, thresholds: Mapping[Resource, float], columns: Sequence[Resource] = MEASURED) -> Flags:
    """Whether the load of each node is at or below the threshold in every resource that has one. False if unknown."""
    limited = [resource in thresholds for resource in columns]
    return np.asarray((load <= row(thresholds, columns=columns))[:, limited].all(axis=1), dtype=np.bool_)


class PoolClassification:
    """The nodes of a pool: their loads, the thresholds that apply, and their classes. Computed once per plan."""

    def __init__(self, members: PoolMembers, windows: Sequence[str], *, margin: float) -> None:
        """`margin`: the distance below its threshold to which a hot node should be brought, as load (0..1)."""
        self.members = members
        self.windows = windows
        own, deviation = members.thresholds, members.deviation
        with_production = _any(own.prod_high, own.prod_low)
        with_production |= deviation is not None and _any(deviation.prod_high, deviation.prod_low)
        self._columns = columns = (*MEASURED, *members.further)
        self.loads = loads = current_loads(members.nodes, windows, production=with_production, further=members.further)
        applied = with_further(fixed(own.high, own.low, margin), own.resources, margin)
        production = fixed(own.prod_high, own.prod_low, margin)
        by_production = loads.production
        if deviation is not None:
            floor, complete = deviation.floor / 100, loads.production_complete[:, np.newaxis]
            known_loads = self._known(loads.first_measured, loads.first)
            applied = deviating(known_loads, deviation.high, deviation.low, floor, applied)
            used = np.where(complete, loads.production, np.nan)
            production = deviating(self._known(used, used), deviation.prod_high, deviation.prod_low, floor, production)
            # The mean excludes the nodes of unknown production, so these are not compared with it.
            by_mean = ~np.isnan(row(shares_of(deviation.prod_high), columns=columns))
            by_production = np.where(by_mean, used, loads.production)
        self.applied: AppliedThresholds = applied
        self.production: AppliedThresholds | None = production if with_production else None
        # A node is hot if its measured load is above the high threshold in any resource, over every window. It is idle
        # if its load, including what is expected, is at or below the low threshold in every resource, over every
        # window.
        # Resources are independent: a node of unknown memory may be hot in CPU.
        hot: Flags = loads.least_measured > row(applied.hot, columns=columns)
        prod_hot = np.zeros_like(hot)
        if self.production is not None:
            prod_hot = (by_production > row(self.production.hot, columns=columns)) & ~hot.any(axis=1, keepdims=True)
        calm: Flags = np.zeros_like(hot)
        if members.require_pressure:
            # A further resource may have the name io.
            calm |= np.array(
                [[name in RESOURCES and name in node.uncontended for name in columns] for node in members.nodes]
            )
        self._calm: Flags = (hot | prod_hot) & calm
        """Nodes × resources: the load is above a threshold, and no pod waits for others."""

        hot, prod_hot = hot & ~calm, prod_hot & ~calm
        self._hot: Mapping[Scope, Flags] = {"node": hot, "prod": prod_hot}
        """Nodes × resources."""

        above: Flags = (loads.least > row(applied.hot, columns=columns)) & ~calm
        self._only_expected = [flags.any() for flags in above & ~hot.any(axis=1, keepdims=True)]
        """Whether each node is above a threshold only because of load that is expected."""

        self._missing = np.array([resource in applied.limited for resource in columns]) & np.isnan(loads.most)
        """Nodes × resources: there is a threshold, and the load is not known over some window."""

        self._idle = within(loads.most, applied.idle, columns)
        contended = np.array([bool(node.contention) for node in members.nodes], dtype=np.bool_)
        self._idle[self._missing.any(axis=1) | hot.any(axis=1) | contended] = False

    def classify(self) -> list[NodeClassification]:
        """The classification of every node, in the order of `members.nodes`."""
        return [self._classification(node, index) for index, node in enumerate(self.members.nodes)]

    def sources(self, scope: Scope, abnormal: Collection[str]) -> list[tuple[int, ClusterNode]]:
        """The hot nodes among `abnormal`, with their indexes; never one of unknown load."""
        nodes = self.members.nodes
        hot = [(index, nodes[index]) for index in np.flatnonzero(self._hot[scope].any(axis=1)).tolist()]
        return [(index, node) for index, node in hot if node.name in abnormal and not node.unknown]

    def contended(self, abnormal: Collection[str]) -> list[ClusterNode]:
        """The nodes among `abnormal` that are hot only because their pods wait for CPU or disks; never one of unknown
        load."""
        return [
            node
            for index, node in enumerate(self.members.nodes)
            if node.name in abnormal and self._is_contended(index, node) and not node.unknown
        ]

    def _is_contended(self, index: int, node: ClusterNode) -> bool:
        relieved = any(resource in node.contention for resource in RELIEVED)
        return relieved and not any(self._hot[scope][index].any() for scope in SCOPES)

    def calm(self) -> list[tuple[ClusterNode, str]]:
        """The nodes of known load above a threshold that are not hot, because no pod waits for others, and why."""
        nodes = self.members.nodes
        indexes = [index for index in np.flatnonzero(self._calm.any(axis=1)).tolist() if not nodes[index].unknown]
        return [(nodes[index], self._calm_reason(index)) for index in indexes]

    def _calm_reason(self, index: int) -> str:
        resources = self._names(self._calm[index])
        loads = dict(zip(self._columns, self.loads.first_measured[index].tolist(), strict=True))
        above = ", ".join(f"{name} {loads[name]:.1%}" for name in resources)
        pressure = self.members.nodes[index].pressure
        shares = [waiting_of(pressure, name) for name in CONTENDED_RESOURCES if name in resources]
        waiting = ", ".join(f"{share:.0%}" for share in shares if share is not None)
        return (
            f"node is above its threshold ({above}), but its pods do not wait for others"
            f" ({waiting} of the time): none is moved away (requirePressure)"
        )

    def refused_idle(self) -> Counter[str]:
        """Why idle nodes are no targets, with the number of nodes."""
        nodes = zip(self.members.nodes, self._idle.tolist(), strict=True)
        return Counter(node.target_refusal for node, idle in nodes if idle and node.target_refusal)

    def hot(self, scope: Scope, index: int) -> list[Resource]:
        """The resources in which a node is above its threshold."""
        return self._names(self._hot[scope][index])

    def only_expected(self) -> bool:
        """Whether a node is above its threshold only by what is expected of pods that are not measured yet."""
        return any(self._only_expected)

    def reason(self, scope: Scope, index: int) -> str:
        """Why a node is hot. For a node with pressure, also how long pods wait."""
        waiting = contention_text(self.members.nodes[index].contention, self.members.thresholds.pressure)
        loads = (self.loads.first_measured if scope == "node" else self.loads.production)[index]
        calm = self._names(self._calm[index])
        hot = {name: threshold for name, threshold in self.applied_to(scope).hot.items() if name not in calm}
        excess = excess_text(dict(zip(self._columns, loads.tolist(), strict=True)), hot, scope)
        return f"{excess}; {waiting}" if waiting else excess

    def applied_to(self, scope: Scope) -> AppliedThresholds:
        """The thresholds of this scope. Those of production exist whenever a node is hot by its production pods."""
        applied = self.applied if scope == "node" else self.production
        assert applied is not None
        return applied

    def weights(self) -> Mapping[Resource, float]:
        """The weights of the resources; the number of pods has weight 0 unless it has a threshold."""
        weights = dict(self.members.weights.shares())
        if "pods" not in self.applied.limited:
            weights["pods"] = 0.0
        return {**weights, **dict.fromkeys(self.members.further, 1.0)}

    def _classification(self, node: ClusterNode, index: int) -> NodeClassification:
        """The classification of a node. Its `load` is that over the first window; `why` states why the node is hot or
        unknown."""
        over: list[Resource] = []
        state: NodeState = "idle" if self._idle[index] else "between"
        why = ""
        scope: Scope | None = next((scope for scope in SCOPES if self._hot[scope][index].any()), None)
        if node.unknown:
            state, why = "unknown", node.unknown
        elif scope is not None:
            state, over, why = "hot", self.hot(scope, index), self.reason(scope, index)
        elif self._is_contended(index, node):
            state, why = "hot", contended_reason(node, self.members.thresholds.pressure)
        elif self._calm[index].any():
            why = self._calm_reason(index)
        elif self._missing[index].any():
            missing = sorted(self._names(self._missing[index]))
            state, why = "unknown", f"no {' and '.join(missing)} usage over {', '.join(self.windows)}"
            reasons = [f"{name}: {node.resources[name]}" for name in missing if node.resources.get(name)]
            why = f"{why} ({'; '.join(reasons)})" if reasons else why
        elif self._only_expected[index]:
            why = f"node is above its threshold {ONLY_EXPECTED}"
        return NodeClassification(
            node=node.name,
            state=state,
            load=node.load(self.windows[0]),
            why=why,
            over=list[str](over),
            sampled_at=node.oldest_sample(self.windows),
            pressure=None if node.pressure is None else node.pressure.waiting,
            waits_for=list[str](node.contention),
        )

    def _names(self, flags: Flags) -> list[Resource]:
        return [resource for resource, flag in zip(self._columns, flags, strict=True) if flag]

    def _known(self, load: Array, expected: Array) -> KnownLoads:
        nodes = self.members.nodes
        return KnownLoads(
            load=load,
            expected=expected,
            base=self.loads.base,
            source=np.array([not node.source_refusal for node in nodes], dtype=np.bool_),
            target=np.array([not node.target_refusal for node in nodes], dtype=np.bool_),
        )


def contended_reason(node: ClusterNode, thresholds: PressureThresholds) -> str:
    """Why a node is hot that is below its load thresholds."""
    return f"node is hot: {contention_text(node.contention, thresholds)}"


def excess_text(load: Mapping[Resource, float], thresholds: Mapping[Resource, float], scope: Scope = "node") -> str:
    """`node is hot: cpu 68.5% is above 50%`, with the threshold as applied."""
    whose = " of production pods" if scope == "prod" else ""
    parts = [
        f"{resource}{whose} {' is above '.join(distinct_percentages(load[resource], threshold))}"
        for resource, threshold in sorted(thresholds.items())
        if resource in load and load[resource] > threshold
    ]
    return "node is hot: " + ", ".join(parts)


MAX_DIGITS = 6
"""The maximum number of digits after the decimal point of a percentage."""


def distinct_percentages(load: float, threshold: float) -> tuple[str, str]:
    """Two shares (0..1) as percentages: the load with one digit, or with as many as it takes to differ from the other.

    `68.5%` and `50%`; `65.04%` and `65%`.
    """
    shown = f"{round(100 * threshold, 2):g}%"
    for digits in range(1, MAX_DIGITS + 1):
        text = f"{100 * load:.{digits}f}"
        if float(text) != round(100 * threshold, digits):
            return f"{text}%", shown
    return f"{100 * load:.1f}%", shown


def _any(*thresholds: ResourceThresholds) -> bool:
    return any(getattr(item, resource) is not None for item in thresholds for resource in MEASURED)
