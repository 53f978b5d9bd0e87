"""Sets of CPUs, as the kernel writes them, and which of them best-effort pods may use."""

from collections.abc import Collection, Iterable


def parse_cpus(text: str) -> frozenset[int]:
    """The CPUs of a text such as `0-3,6`. Raises ValueError."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


def format_cpus(cpus: Collection[int]) -> str:
    """The shortest text for these CPUs, as the kernel returns it."""
    parts: list[str] = []
    ordered = sorted(cpus)
    start = 0
    for index, cpu in enumerate(ordered):
        if index + 1 == len(ordered) or ordered[index + 1] != cpu + 1:
            first = ordered[start]
            parts.append(f"{first}" if first == cpu else f"{first}-{cpu}")
            start = index + 1
    return ",".join(parts)


def shared_cpus(of_pods: frozenset[int], of_containers: Iterable[frozenset[int]]) -> frozenset[int]:
    """The CPUs of all pods that each best-effort container may use.

    The static CPU manager of the kubelet excludes those that it has given to another container alone. `of_containers`:
    the set that the kubelet has given to each best-effort container; an empty one excludes nothing.
    """
    return of_pods.intersection(*(cpus for cpus in of_containers if cpus))


def choose_cpus(available: Collection[int], siblings: Iterable[frozenset[int]], count: int) -> frozenset[int]:
    """`count` of the available CPUs: whole cores from the last one down, so that no core is shared with others.

    The order is always the same: one CPU more or fewer changes no other. `siblings`: the CPUs of each core.
    """
    cores = {cpu: min(core) for core in siblings for cpu in core}
    ordered = sorted(available, key=lambda cpu: (cores.get(cpu, cpu), cpu), reverse=True)
    return frozenset(ordered[:count])
