"""The text of /metrics, for any number of clients that request it at the same time."""

import asyncio
from collections.abc import Callable

from prometheus_client import CollectorRegistry, generate_latest

KEPT_SECONDS = 1.0
"""Seconds for which the text is served again. Prometheus scrapes less often. Rendering holds the interpreter's lock,
which delays the event loop."""


class RenderedMetrics:
    """The registry is rendered by one thread at a time, and at most once in KEPT_SECONDS."""

    def __init__(self, metrics: CollectorRegistry, monotonic: Callable[[], float]) -> None:
        self._metrics = metrics
        self._monotonic = monotonic
        self._rendering = asyncio.Lock()
        self._text = b""
        self._rendered_at = float("-inf")

    async def text(self) -> bytes:
        """The metrics in Prometheus' text format, at most KEPT_SECONDS old."""
        async with self._rendering:
            if self._monotonic() - self._rendered_at >= KEPT_SECONDS:
                # In a thread, because rendering the series of a large cluster takes longer than a request for scores
                # may wait.
                self._text = await asyncio.to_thread(generate_latest, self._metrics)
                self._rendered_at = self._monotonic()
            return self._text
