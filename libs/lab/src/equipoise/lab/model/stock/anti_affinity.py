"""The trace's anti-affinity rules: where a workload may not go, and how many pods lie against them."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from equipoise.lab.model.stock.resources import Flags
from equipoise.lab.model.trace import AntiAffinity


class Neighbours:
    """How many pods of each workload every node has, and what the rules make of it.

    A rule closes a node in both directions: to another pod of `limited` beside `beside`, and to a pod of `beside` where
    there are more than `most` of `limited`. Either way it closes what two crowds share, a crowd being the nodes with
    more than so many pods of a workload. It is kept as an integer with a bit per node: no rule costs more than two of
    Python's operations, however many nodes there are.
    """

    def __init__(self, rules: Sequence[AntiAffinity], nodes: int) -> None:
        self._nodes = nodes
        self._rules = np.array([(rule.beside, rule.limited, rule.most) for rule in rules], dtype=np.int64).reshape(
            -1, 3
        )
        self._counts: defaultdict[int, dict[int, int]] = defaultdict(dict)
        self._everywhere = 0
        self._crowds = [(1 << nodes) - 1]
        self._index: dict[tuple[int, int], int] = {}
        """By workload and "more than so many": where its crowd is. Only what a rule speaks of."""

        self._closing: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        """By workload: pairs of crowds; nodes in both are closed to it."""

        for rule in rules:
            enough = self._crowd(rule.limited, rule.most - 1)
            if rule.beside == rule.limited:
                self._closing[rule.limited].append((enough, self._everywhere))
            else:
                self._closing[rule.limited].append((enough, self._crowd(rule.beside, 0)))
                self._closing[rule.beside].append((self._everywhere, self._crowd(rule.limited, rule.most)))

    def _crowd(self, workload: int, number: int) -> int:
        if number < 0:
            return self._everywhere
        place = self._index.setdefault((workload, number), len(self._crowds))
        if place == len(self._crowds):
            self._crowds.append(0)
        return place

    def place(self, workload: int, node: int) -> None:
        here = self._counts[workload]
        before = here.get(node, 0)
        here[node] = before + 1
        if (crowd := self._index.get((workload, before))) is not None:
            self._crowds[crowd] |= 1 << node

    def remove(self, workload: int, node: int) -> None:
        """Raises KeyError when there is no such pod on the node."""
        here = self._counts[workload]
        after = here.pop(node) - 1
        if after:
            here[node] = after
        if (crowd := self._index.get((workload, after))) is not None:
            self._crowds[crowd] &= ~(1 << node)

    def count(self, workload: int) -> dict[int, int]:
        """Pods of the workload by node; not to be written to."""
        return self._counts[workload]

    def closed(self, workload: int) -> Flags | None:
        """Per node: does a rule forbid another pod of the workload there? None: none does anywhere."""
        closed, crowds = 0, self._crowds
        for one, other in self._closing.get(workload, ()):
            closed |= crowds[one] & crowds[other]
        if not closed:
            return None
        octets = np.frombuffer(closed.to_bytes(self._nodes // 8 + 1, "little"), dtype=np.uint8)
        return np.unpackbits(octets, count=self._nodes, bitorder="little").view(np.bool_)

    def violations(self) -> int:
        """Pods of a workload beyond what a rule lets onto their node; once for every rule that they break.

        Counted from the pods alone, and not from what `closed` goes by.
        """
        here = [(workload, node, count) for workload, of in self._counts.items() for node, count in of.items()]
        if not here or not len(self._rules):
            return 0
        entries = np.array(sorted(here), dtype=np.int64)
        beside, limited, most = self._rules.T
        first = np.searchsorted(entries[:, 0], limited, side="left")
        length = np.searchsorted(entries[:, 0], limited, side="right") - first
        # one row per rule and node that has pods of its limited workload
        rule = np.repeat(np.arange(len(limited)), length)
        row = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length) + first[rule]
        excess = entries[row, 2] - most[rule]
        rule, row, excess = rule[excess > 0], row[excess > 0], excess[excess > 0]
        span = int(entries[:, 1].max()) + 1
        together = np.isin(beside[rule] * span + entries[row, 1], entries[:, 0] * span + entries[:, 1])
        return int(excess[together].sum())
