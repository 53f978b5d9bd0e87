"""The browsers that watch: each gets a snapshot, then changes. One that does not keep up is dropped."""

import asyncio
from collections import deque
from collections.abc import Callable

from equipoise.contracts.kubernetes.labels import integer

MAX_VIEWERS, MAX_VIEWERS_PER_ADDRESS = 250, 125
"""A proxy or a port-forward is one address for everybody behind it."""

MAX_WAITING = 30
"""Changes that wait for one viewer, about one a second; above that it is dropped, and its browser connects again."""

MAX_KEPT, MAX_KEPT_BYTES = 120, 8 * 2**20
"""Changes kept for viewers that connect again, about two minutes."""


class Viewer:
    """One open stream."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._events: asyncio.Queue[bytes] = asyncio.Queue()
        self.dropped = False
        """Whether its connection must be closed, because it is too slow or the server stops."""

    def add(self, event: bytes) -> None:
        if self._events.qsize() >= MAX_WAITING:
            self.drop()
        else:
            self._events.put_nowait(event)

    def drop(self) -> None:
        self.dropped = True
        self._events.put_nowait(b"")  # wakes a reader

    async def next(self, timeout: float) -> bytes:
        """The next event; b"" if there is none within `timeout` seconds, or if it was dropped."""
        if self.dropped:
            return b""
        try:
            async with asyncio.timeout(timeout):
                return await self._events.get()
        except TimeoutError:
            return b""


class Viewers:
    """Every event has an id `RUN-NUMBER`: a browser that connects again with it gets only what it has missed."""

    def __init__(self, run: str, snapshot: Callable[[], bytes]) -> None:
        """`run`: a text that identifies this process, so that ids of an earlier process are recognized as such.
        `snapshot`: the whole view as JSON."""
        self._run = run
        self._snapshot = snapshot
        self._number = 0
        self._kept: deque[bytes] = deque()
        self._kept_bytes = 0
        self._viewers: set[Viewer] = set()
        self._last_snapshot: tuple[int, bytes] = (-1, b"")

    def __len__(self) -> int:
        return len(self._viewers)

    def publish(self, changes: bytes) -> None:
        """JSON without line breaks."""
        self._number += 1
        event = self._event("change", changes)
        self._kept.append(event)
        self._kept_bytes += len(event)
        while len(self._kept) > MAX_KEPT or self._kept_bytes > MAX_KEPT_BYTES:
            self._kept_bytes -= len(self._kept.popleft())
        for viewer in self._viewers:
            viewer.add(event)

    def open(self, last_event_id: str, address: str) -> Viewer | None:
        """A new viewer; None if there are too many, in all or of this address. `last_event_id`: text of the browser."""
        own = sum(viewer.address == address for viewer in self._viewers)
        if len(self._viewers) >= MAX_VIEWERS or own >= MAX_VIEWERS_PER_ADDRESS:
            return None
        viewer = Viewer(address)
        for event in self._missed(last_event_id):
            viewer.add(event)
        self._viewers.add(viewer)
        return viewer

    def close(self, viewer: Viewer) -> None:
        self._viewers.discard(viewer)

    def close_all(self) -> None:
        for viewer in self._viewers:
            viewer.drop()

    def _missed(self, last_event_id: str) -> list[bytes]:
        run, _, text = last_event_id.rpartition("-")
        if run == self._run and (number := integer(text)) is not None:
            missed = self._number - number
            if 0 <= missed <= min(len(self._kept), MAX_WAITING - 1):
                return list(self._kept)[len(self._kept) - missed :]
        if self._last_snapshot[0] != self._number:  # of many browsers that connect at once only the first computes it
            self._last_snapshot = (self._number, self._event("snapshot", self._snapshot()))
        return [self._last_snapshot[1]]

    def _event(self, kind: str, data: bytes) -> bytes:
        return b"event: %s\nid: %s-%d\ndata: %s\n\n" % (kind.encode(), self._run.encode(), self._number, data)
