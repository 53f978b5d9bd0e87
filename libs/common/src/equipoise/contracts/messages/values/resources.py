"""Amounts of cpu and memory, and of further resources."""

from collections.abc import Mapping
from typing import Literal

from equipoise.contracts.bounds import Amount, Bytes, Cores, bounded
from equipoise.contracts.messages.message import Value


class Resources(Value, frozen=True, kw_only=True):
    """An amount of cpu (cores) and memory (bytes). None means unknown, or absent in a request or limit."""

    cpu: Cores | None = None
    memory: Bytes | None = None
    further: dict[str, Amount] | None = None
    """The known amounts of further resources (`load.resources`) by name, each in its own unit."""

    def amount(self, resource: str) -> float | None:
        """The amount of cpu, memory or a further resource; None if it is unknown."""
        if resource in ("cpu", "memory"):
            amount: float | None = getattr(self, resource)
            return amount
        return None if self.further is None else self.further.get(resource)


def cpu_and_memory(
    amounts: Mapping[str, float | None] | Mapping[Literal["cpu", "memory"], float | None],
) -> Resources:
    """The amounts of cpu and memory by the name of the resource; unknown if absent."""
    return Resources(cpu=amounts.get("cpu"), memory=amounts.get("memory"))


def bounded_resources(*, cpu: float | None, memory: float | None) -> Resources:
    """Sums of cpu and memory, limited to what a message may contain (`bounded`)."""
    return Resources(
        cpu=None if cpu is None else bounded("cpu", cpu), memory=None if memory is None else bounded("memory", memory)
    )


def further_sum(
    left: Mapping[str, float] | None, right: Mapping[str, float] | None, sign: float = 1.0
) -> dict[str, float] | None:
    """Sums of further resources, never below 0. What is unknown on the left is unknown; unknown on the right adds
    nothing."""
    if left is None:
        return None
    if not right:
        return dict(left)
    return {name: max(0.0, amount + sign * right.get(name, 0.0)) for name, amount in left.items()}
