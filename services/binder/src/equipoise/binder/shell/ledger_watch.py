"""Looks at the ledger every few seconds: tells people when nothing may move, writes what concerns every binder.

It learns the API server's time on the way.
"""

from equipoise.binder.shell.ledger_writer import Books
from equipoise.binder.state.ledger import Closed, Ledger
from equipoise.runtime.kubernetes.client import KubeError
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.health import Health

_CLOCK_READS = 20
_CLOCK_PAUSE = 0.05
"""So often, so many seconds apart: Date headers have whole seconds, and only answers spread over one tell it well.
What is counted in windows must not move afterwards."""

_PERIOD = 10.0
"""Seconds between two looks at the ledger."""


class LedgerWatch:
    def __init__(self, books: Books, clock: Clock, health: Health, *, evictions: str) -> None:
        """`evictions`: what the heartbeat says of them while the ledger is open."""
        self._books = books
        self._clock = clock
        self._health = health
        self._evictions = evictions

    async def learn_the_time(self) -> None:
        """Takes a second; returns although the API server is away."""
        for _ in range(_CLOCK_READS):
            await self._look()
            await self._clock.sleep(_CLOCK_PAUSE)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._clock.sleep(_PERIOD)
            await self._look()

    def tell(self, ledger: Ledger | Closed) -> None:
        if isinstance(ledger, Closed):
            problem = f"nothing may move: {ledger.why}"
        elif ledger.paused:
            problem = f"paused: {ledger.paused_why or 'no reason given'}"
        else:
            problem = ""
        self._health.set_problem("ledger", problem or None)
        self._health.evictions = problem or self._evictions

    async def _look(self) -> None:
        try:
            ledger = await self._books.bring_up_to_date()
        except KubeError as error:
            self._health.set_problem("ledger", f"the ledger cannot be read: {error}")
        else:
            self.tell(ledger)
