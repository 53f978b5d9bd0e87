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
    """Per row."""

    codes: Ints
    """Per row: the Code of the plugin that refused it, or SUCCESS."""

    refusals: list[tuple[str, Refusal]] = []
    """Plugin and refusal, with the nodes that no earlier plugin refused."""

    status: PluginStatus | None = None
    """Of a plugin that refused all nodes before any was examined, or that failed."""

    def add(self, plugin: str, refusals: list[Refusal]) -> None:
        """Those of the next plugin, of nodes that passed the earlier ones."""
        refused = np.zeros(len(self.rows), dtype=np.bool_)
        for refusal in refusals:
            nodes = refusal.nodes & self.passed
            if not nodes.any():
                continue
            self.refusals.append((plugin, msgspec.structs.replace(refusal, nodes=nodes)))
            if refusal.code == Code.UNSCHEDULABLE:
                self.codes[nodes & (self.codes == Code.SUCCESS)] = refusal.code
            else:
                self.codes[nodes] = refusal.code
            refused |= nodes
        self.passed &= ~refused

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
        self.passed[refused], self.codes[refused] = False, other.codes[~other.passed]

    def reasons(self) -> Counter[str]:
        """Number of nodes by reason. A node counts once for each of its reasons."""
        found: Counter[str] = Counter()
        for _, refusal in self.refusals:
            found[refusal.reason] += int(refusal.nodes.sum())
        return +found

    def by_node(self) -> Mapping[int, PluginStatus]:
        """By row, of those that were refused."""
        found: dict[int, PluginStatus] = {}
        for plugin, refusal in self.refusals:
            for place in refusal.nodes.nonzero()[0].tolist():
                row = int(self.rows[place])
                earlier = found[row].reasons if row in found else ()
                code = Code(int(self.codes[place]))
                found[row] = PluginStatus(code=code, reasons=(*earlier, refusal.reason), plugin=plugin)
        return found

    @property
    def plugins(self) -> frozenset[str]:
        """That refused some node."""
        names = {plugin for plugin, _ in self.refusals}
        return frozenset(names | ({self.status.plugin} if self.status else set()))


def passed_all(rows: Rows) -> FilterDiagnosis:
    """Before any plugin was called."""
    return FilterDiagnosis(
        rows=rows, passed=np.ones(len(rows), dtype=np.bool_), codes=np.zeros(len(rows), dtype=np.int64), refusals=[]
    )


def counted(reasons: Iterable[str] | Mapping[str, int]) -> str:
    """As kube-scheduler writes them: `1 Insufficient cpu, 2 node(s) were unschedulable`."""
    return ", ".join(sorted(f"{count} {reason}" for reason, count in Counter(reasons).items()))
