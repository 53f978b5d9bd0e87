"""The labels of all nodes as columns, so that a selector is evaluated for all of them at once."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from equipoise.contracts.kubernetes.labels import integer
from equipoise.contracts.kubernetes.objects.node import Node, NodeSelector, NodeSelectorTerm
from equipoise.scheduling.model.arrays import Flags, Ints, Rows

MISSING = -1
_NONE: Rows = np.zeros(0, dtype=np.intp)


class LabelColumn:
    """The values of one label (or of the name) of all nodes."""

    def __init__(self, values: Sequence[str | None], *, everywhere: bool = False) -> None:
        """`values`: the value of each row; None for a node without the label, and for a free row."""
        self.everywhere = everywhere
        """Whether every node has the label."""

        self.values: list[str] = []
        """The different values of the label."""

        self._index = codes = dict[str, int]()
        self.codes: Rows = np.full(len(values), MISSING, dtype=np.intp)
        """The index of each node's value in `values`, or MISSING."""

        for row, value in enumerate(values):
            if value is not None:
                if value not in codes:
                    codes[value] = len(self.values)
                    self.values.append(value)
                self.codes[row] = codes[value]

    def codes_with_missing_as(self, value: str) -> Rows:
        """The index in `values` of the value of each node. A node without the label gets the index of `value`, which
        some node must have."""
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
        """The nodes ordered by their value, and the position at which each value begins."""
        order = np.argsort(self.codes, kind="stable")
        return order, np.searchsorted(self.codes[order], np.arange(len(self.values) + 1))

    def satisfying(self, operator: str, values: Sequence[str]) -> Flags:
        """The result of `satisfies` for each node. It is evaluated only once for each different value."""
        # One verdict for each value, and a last one for nodes without the label, whose code is -1.
        match operator:
            case "In" | "NotIn":
                verdicts = self._named(values)
                verdicts = verdicts if operator == "In" else ~verdicts
            case "Gt" | "Lt":
                verdicts = self._compared(values, greater=operator == "Gt")
            case "Exists" | "DoesNotExist":
                verdicts = self._missing if operator == "DoesNotExist" else ~self._missing
            case _:  # is never met
                verdicts = np.zeros(len(self.values) + 1, dtype=np.bool_)
        found: Flags = verdicts[self.codes]
        return found

    @cached_property
    def numbers(self) -> tuple[Ints, Flags]:
        """The values as integers, 0 for others, and whether each value is an integer."""
        numbers = [integer(value) for value in self.values]
        return (
            np.array([number or 0 for number in numbers] + [0], dtype=np.int64),
            np.array([number is not None for number in numbers] + [False], dtype=np.bool_),
        )

    @cached_property
    def _missing(self) -> Flags:
        missing = np.zeros(len(self.values) + 1, dtype=np.bool_)
        missing[MISSING] = True
        return missing

    def _named(self, values: Sequence[str]) -> Flags:
        named = np.zeros(len(self.values) + 1, dtype=np.bool_)
        named[[self._index[value] for value in values if value in self._index]] = True
        return named

    def _compared(self, values: Sequence[str], *, greater: bool) -> Flags:
        bound = integer(values[0]) if len(values) == 1 else None
        if bound is None:
            return np.zeros(len(self.values) + 1, dtype=np.bool_)
        numbers, are_numbers = self.numbers
        met: Flags = (numbers > bound if greater else numbers < bound) & are_numbers
        return met


class NodeLabels:
    """The columns of labels. A column is created when it is read first. After a change of a node, `forget` must be
    called."""

    def __init__(self, nodes: Sequence[Node | None]) -> None:
        """`nodes`: the node of each row; None for a free row. It may change."""
        self._nodes = nodes
        self._columns: dict[str, LabelColumn] = {}
        self._keys: frozenset[str] | None = None
        """The labels that nodes have. Collected when a label is read that no node has."""

        self._absent: LabelColumn | None = None
        """The column of all labels that no node has."""

        self._names: LabelColumn | None = None
        self._selected: dict[bytes, Flags] = {}

    def forget(self) -> None:
        """Clears all results after a node was changed, added or removed."""
        self._columns.clear()
        self._selected.clear()
        self._keys = self._absent = self._names = None

    def column(self, key: str) -> LabelColumn:
        if key in self._columns:
            return self._columns[key]
        if self._absent is not None and key not in self._present_keys:
            return self._absent
        values = [None if node is None else node.metadata.labels.get(key) for node in self._nodes]
        everywhere = all(key in node.metadata.labels for node in self._nodes if node is not None)
        column = LabelColumn(values, everywhere=everywhere)
        if column.values:
            self._columns[key] = column
        else:
            self._absent = column
        return column

    @property
    def _present_keys(self) -> frozenset[str]:
        if self._keys is None:
            self._keys = frozenset().union(*(node.metadata.labels for node in self._nodes if node is not None))
        return self._keys

    def selected(self, selector: NodeSelector, key: bytes) -> Flags:
        """Whether any term matches each node. `key` is equal for equal selectors."""
        if key not in self._selected:
            if len(self._selected) >= MOST_SELECTORS:
                self._selected.clear()
            selected = np.zeros(len(self._nodes), dtype=np.bool_)
            for term in selector.node_selector_terms:
                selected |= self.term(term)
            self._selected[key] = selected
        return self._selected[key]

    def term(self, term: NodeSelectorTerm) -> Flags:
        """Whether each node meets all requirements. A term without requirements matches no node."""
        found = np.full(len(self._nodes), bool(term.match_expressions or term.match_fields))
        for rule in term.match_expressions:
            found &= self.column(rule.key).satisfying(rule.operator, rule.values)
        # The API server allows only the field metadata.name.
        for rule in term.match_fields:
            found &= self._name_column(rule.key).satisfying(rule.operator, rule.values)
        return found

    def _name_column(self, field: str) -> LabelColumn:
        if field != "metadata.name":
            return LabelColumn([None] * len(self._nodes))
        if self._names is None:
            self._names = LabelColumn([None if node is None else node.metadata.name for node in self._nodes])
        return self._names


MOST_SELECTORS = 1_000
"""The maximum number of results that are kept: 5 MB with 5,000 nodes."""
