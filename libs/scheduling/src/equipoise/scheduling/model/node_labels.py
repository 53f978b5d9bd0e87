"""The labels of all nodes as columns, so that a selector is evaluated for all of them at once."""

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from equipoise.contracts.kubernetes.labels import satisfies
from equipoise.contracts.kubernetes.objects import Node, NodeSelector, NodeSelectorTerm, SelectorRequirement
from equipoise.scheduling.model.arrays import Flags, Rows

MISSING = -1
_NONE: Rows = np.zeros(0, dtype=np.intp)


class LabelColumn:
    """The values of one label (or of the name) of all nodes."""

    def __init__(self, values: Sequence[str | None], *, everywhere: bool = False) -> None:
        """`values`: per node; None without the label, and for free rows."""
        self.everywhere = everywhere
        """Every node has the label."""

        self.values: list[str] = []
        """Each once."""

        self._index = codes = dict[str, int]()
        self.codes: Rows = np.full(len(values), MISSING, dtype=np.intp)
        """Per node: index in `values`, or MISSING."""

        for row, value in enumerate(values):
            if value is not None:
                if value not in codes:
                    codes[value] = len(self.values)
                    self.values.append(value)
                self.codes[row] = codes[value]

    def codes_with_missing_as(self, value: str) -> Rows:
        """Per node: index in `values`, for nodes without the label that of this value, which some node has."""
        return np.where(self.codes == MISSING, self._index[value], self.codes)

    def rows_with(self, value: str) -> Rows:
        """The nodes with this value."""
        index = self._index.get(value)
        if index is None:
            return _NONE
        order, begins = self._by_value
        found: Rows = order[begins[index] : begins[index + 1]]
        return found

    @cached_property
    def _by_value(self) -> tuple[Rows, Rows]:
        """Nodes ordered by their value, and where each value begins."""
        order = np.argsort(self.codes, kind="stable")
        return order, np.searchsorted(self.codes[order], np.arange(len(self.values) + 1))

    def satisfying(self, operator: str, values: Sequence[str]) -> Flags:
        """Per node."""
        # The last entry is that of nodes without the label: their code is -1.
        if operator == "In":  # what most selectors are, on labels with as many values as there are nodes
            named = np.zeros(len(self.values) + 1, dtype=np.bool_)
            named[[self._index[value] for value in values if value in self._index]] = True
            selected: Flags = named[self.codes]
            return selected
        verdicts = [satisfies(value, operator, values) for value in self.values]
        verdicts.append(satisfies(None, operator, values))
        found: Flags = np.array(verdicts, dtype=np.bool_)[self.codes]
        return found


class NodeLabels:
    """Columns are made when they are read first. A changed node makes all of them outdated: see `forget`."""

    def __init__(self, nodes: Sequence[Node | None]) -> None:
        """`nodes` may change; None is a free row."""
        self._nodes = nodes
        self._columns: dict[str, LabelColumn] = {}
        self._names: LabelColumn | None = None
        self._selected: dict[bytes, Flags] = {}

    def forget(self) -> None:
        """After a node was changed, added or removed."""
        self._columns.clear()
        self._selected.clear()
        self._names = None

    def column(self, key: str) -> LabelColumn:
        if key not in self._columns:
            values = [None if node is None else node.metadata.labels.get(key) for node in self._nodes]
            everywhere = all(key in node.metadata.labels for node in self._nodes if node is not None)
            self._columns[key] = LabelColumn(values, everywhere=everywhere)
        return self._columns[key]

    def selected(self, selector: NodeSelector, key: bytes) -> Flags:
        """Per node: whether any term matches it. `key` is equal for equal selectors."""
        if key not in self._selected:
            if len(self._selected) >= MOST_SELECTORS:
                self._selected.clear()
            terms = [self.term(term) for term in selector.node_selector_terms]
            self._selected[key] = np.logical_or.reduce(terms) if terms else np.zeros(len(self._nodes), dtype=np.bool_)
        return self._selected[key]

    def term(self, term: NodeSelectorTerm) -> Flags:
        """Per node: whether all requirements are met. A term without requirements matches none."""
        found = [self._satisfying(rule, self.column) for rule in term.match_expressions]
        # The API server allows no other field than the name.
        found += [self._satisfying(rule, self._name_column) for rule in term.match_fields]
        if not found:
            return np.zeros(len(self._nodes), dtype=np.bool_)
        all_met: Flags = np.logical_and.reduce(found)
        return all_met

    def _satisfying(self, rule: SelectorRequirement, column: Callable[[str], LabelColumn]) -> Flags:
        return column(rule.key).satisfying(rule.operator, rule.values)

    def _name_column(self, field: str) -> LabelColumn:
        if field != "metadata.name":
            return LabelColumn([None] * len(self._nodes))
        if self._names is None:
            self._names = LabelColumn([None if node is None else node.metadata.name for node in self._nodes])
        return self._names


MOST_SELECTORS = 1_000
"""Results that are kept: 5 MB with 5,000 nodes."""
