"""Amounts of cpu and memory."""

from equipoise.contracts.bounds import Bytes, Cores, bounded
from equipoise.contracts.messages.message import Value


class Resources(Value, frozen=True, kw_only=True):
    """An amount of cpu (cores) and memory (bytes). None means unknown, or absent in a request or limit."""

    cpu: Cores | None = None
    memory: Bytes | None = None


def bounded_resources(*, cpu: float | None, memory: float | None) -> Resources:
    """Sums of cpu and memory, limited to what a message may contain (`bounded`)."""
    return Resources(
        cpu=None if cpu is None else bounded("cpu", cpu), memory=None if memory is None else bounded("memory", memory)
    )
