"""Slices of a trace: some of its nodes, drawn at random and the same for the same seed, with all their pods."""

import random
import re
from collections.abc import Sequence, Set

from equipoise.lab.formats.tables import TraceError
from equipoise.lab.model.trace import TraceNode


def drawn(nodes: Sequence[TraceNode], occupied: Set[str], *, count: int | None, seed: int) -> tuple[TraceNode, ...]:
    """`count` of the occupied nodes, equally many of each size, in the order they came in; None, 0 or enough: all.

    Every size is drawn from its nodes in the natural order of their names (node-9 before node-10), the smallest size
    first, with one `random.Random(seed)`. Where a size has too few, the others give more. Raises TraceError.
    """
    if not count or count >= len(nodes):
        return tuple(nodes)
    sizes: dict[tuple[int, int], list[str]] = {}
    for node in nodes:
        if node.name in occupied:
            sizes.setdefault((node.cpu_milli, node.memory_mib), []).append(node.name)
    full = sum(map(len, sizes.values()))
    if not 0 < count <= full:
        raise TraceError(
            f"a slice of {count} nodes was asked for, and {full} of the {len(nodes)} carry pods; "
            f"ask for {full} at most, or for 0, which is all of them"
        )
    quotas: dict[tuple[int, int], int] = {}
    for index, size in enumerate(sorted(sizes, key=lambda size: (len(sizes[size]), size))):
        quotas[size] = min(len(sizes[size]), (count - sum(quotas.values())) // (len(sizes) - index))
    chooser = random.Random(seed)
    chosen: set[str] = set()
    for size in sorted(sizes):
        chosen.update(chooser.sample(sorted(sizes[size], key=natural), quotas[size]))
    return tuple(node for node in nodes if node.name in chosen)


def natural(name: str) -> tuple[tuple[str | int, ...], str]:
    """A sort key that counts: machine_9 comes before machine_10."""
    parts = re.split(r"(\d+)", name)
    return tuple(int(part) if index % 2 else part for index, part in enumerate(parts)), name
