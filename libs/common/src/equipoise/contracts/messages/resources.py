"""Amounts of cpu and memory."""

from equipoise.contracts.bounds import Bytes, Cores
from equipoise.contracts.messages.message import Value


class Resources(Value, frozen=True, kw_only=True):
    """An amount of cpu (cores) and memory (bytes); None is unknown (in a request: not given)."""

    cpu: Cores | None = None
    memory: Bytes | None = None
