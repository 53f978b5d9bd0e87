"""Which nodes refuse a pod, and why."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from equipoise.scheduling.framework.plugin import Refusal
from equipoise.scheduling.framework.status import Code, PluginStatus
from equipoise.scheduling.model.arrays import Flags, Ints, Rows


class FilterDiagnosis(msgspec.Struct, kw_only=True):
    """The result of all filters for these rows."""

    rows: Rows
    passed: Flags
    """Whether the node of each row passed."""

    refusals: list[tuple[str, Refusal]] = []
    """Plugin and refusal, with the nodes that no earlier plugin refused."""

    status: PluginStatus | None = None
    """The status of a plugin that refused all nodes before any was examined, or that failed."""

    def add(self, plugin: str, refusals: list[Refusal]) -> bool:
        """Adds the refusals by the next plugin, of nodes that passed the earlier ones. Returns whether any is left."""
        refused = None
        for refusal in refusals:
            nodes = refusal.nodes & self.passed
            if not np.count_nonzero(nodes):
                continue
            self.refusals.append((plugin, Refusal(nodes=nodes, reason=refusal.reason, code=refusal.code)))
            refused = nodes if refused is None else refused | nodes
        if refused is None:
            return True
        self.passed ^= refused  # which are among those that passed
        return bool(np.count_nonzero(self.passed))

    def replace(self, places: Sequence[int], other: "FilterDiagnosis") -> None:
        """Nodes that `other` refuses get its result. It is about the nodes at these places only."""
        refused = np.asarray(places, dtype=np.intp)[~other.passed]
        if not len(refused):
            return
        for _, refusal in self.refusals:
            refusal.nodes[refused] = False
        for plugin, refusal in other.refusals:
            nodes = np.zeros(len(self.rows), dtype=np.bool_)
            nodes[places] = refusal.nodes
            self.refusals.append((plugin, msgspec.structs.replace(refusal, nodes=nodes)))
        self.passed[refused] = False

    @property
    def codes(self) -> Ints:
        """The Code of the plugin that refused the node of each row, or SUCCESS."""
        found = np.zeros(len(self.rows), dtype=np.int64)
        for _, refusal in self.refusals:
            # The reasons of one plugin may have several codes: of these, UNSCHEDULABLE is the weakest.
            weakest = refusal.code == Code.UNSCHEDULABLE
            found[refusal.nodes & (found == 0) if weakest else refusal.nodes] = int(refusal.code)
        return found

    def reasons(self) -> Counter[str]:
        """Number of nodes by reason. A node counts once for each of its reasons."""
        found: Counter[str] = Counter()
        for _, refusal in self.refusals:
            found[refusal.reason] += int(refusal.nodes.sum())
        return +found  # without zeros

    def by_node(self) -> Mapping[int, PluginStatus]:
        """The statuses of the nodes that were refused, by row."""
        if not self.refusals:
            return {}
        refused = np.flatnonzero(np.logical_or.reduce([refusal.nodes for _, refusal in self.refusals]))
        # Most nodes are refused by the same plugins: each combination of refusals is one status.
        columns = np.array([refusal.nodes[refused] for _, refusal in self.refusals]).T
        keys = zip(map(bytes, columns), self.codes[refused].tolist(), strict=True)
        statuses: dict[tuple[bytes, int], PluginStatus] = {}
        found: dict[int, PluginStatus] = {}
        for row, key in zip(self.rows[refused].tolist(), keys, strict=True):
            if key not in statuses:
                statuses[key] = self._status(*key)
            found[row] = statuses[key]
        return found

    def _status(self, refused_by: bytes, code: int) -> PluginStatus:
        """`refused_by`: one byte for each of the refusals, 1 if it contains the node."""
        refusals = [each for each, contains in zip(self.refusals, refused_by, strict=True) if contains]
        reasons = tuple(refusal.reason for _, refusal in refusals)
        return PluginStatus(code=Code(code), reasons=reasons, plugin=refusals[-1][0])

    @property
    def plugins(self) -> frozenset[str]:
        """The plugins that refused at least one node."""
        names = {plugin for plugin, _ in self.refusals}
        return frozenset(names | ({self.status.plugin} if self.status else set()))


def passed_all(rows: Rows) -> FilterDiagnosis:
    """The diagnosis before any plugin was called."""
    passed = np.empty(len(rows), dtype=np.bool_)
    passed.fill(True)  # as np.ones, which takes longer for few nodes
    return FilterDiagnosis(rows=rows, passed=passed, refusals=[])


def counted(reasons: Iterable[str] | Mapping[str, int]) -> str:
    """The reasons as kube-scheduler writes them: `1 Insufficient cpu, 2 node(s) were unschedulable`."""
    return ", ".join(sorted(f"{count} {reason}" for reason, count in Counter(reasons).items()))
