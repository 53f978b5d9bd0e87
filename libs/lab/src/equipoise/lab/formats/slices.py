"""Slices of a trace: a random sample of its nodes, reproducible by its seed, with all their pods."""

import random
import re
from collections.abc import Sequence, Set

from equipoise.lab.formats.tables import TraceError
from equipoise.lab.model.trace import TraceNode


def sampled_nodes(
    nodes: Sequence[TraceNode], occupied: Set[str], *, count: int | None, seed: int
) -> tuple[TraceNode, ...]:
    """`count` of the occupied nodes in their order, the same number of each size; None, 0 or a large count: all nodes.

    For each size, the smallest first, `random.Random(seed)` samples from its nodes in the natural order of their names
    (node-9 before node-10). If a size has too few nodes, the others provide more. Raises TraceError.
    """
    if not count or count >= len(nodes):
        return tuple(nodes)
    sizes: dict[tuple[int, int], list[str]] = {}
    for node in nodes:
        if node.name in occupied:
            sizes.setdefault((node.cpu_milli, node.memory_mib), []).append(node.name)
    available = sum(map(len, sizes.values()))
    if not 0 < count <= available:
        raise TraceError(
            f"{count} nodes were requested, but only {available} of the {len(nodes)} have pods; "
            f"request at most {available}, or 0 for all"
        )
    quotas: dict[tuple[int, int], int] = {}
    for index, size in enumerate(sorted(sizes, key=lambda size: (len(sizes[size]), size))):
        quotas[size] = min(len(sizes[size]), (count - sum(quotas.values())) // (len(sizes) - index))
    generator = random.Random(seed)
    sampled: set[str] = set()
    for size in sorted(sizes):
        sampled.update(generator.sample(sorted(sizes[size], key=natural_order), quotas[size]))
    return tuple(node for node in nodes if node.name in sampled)


def slice_note(count: int, total: int, seed: int) -> list[str]:
    """A note about the size of a slice; none for all nodes."""
    return [f"a slice: {count} of {total} nodes, sampled from the occupied ones with seed {seed}"] * (count < total)


def natural_order(name: str) -> tuple[tuple[str | int, ...], str]:
    """Sort key that compares digits as numbers: machine_9 comes before machine_10."""
    parts = re.split(r"(\d+)", name)
    return tuple(int(part) if index % 2 else part for index, part in enumerate(parts)), name
