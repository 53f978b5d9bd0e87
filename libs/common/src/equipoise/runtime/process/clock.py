"""The one place that reads the time."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """The clock of a service. Tests use `equipoise.testbed.memory.ManualClock`."""

    def now(self) -> float:
        """Unix seconds (UTC)."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        return time.time()  # noqa: TID251  the one place

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))
