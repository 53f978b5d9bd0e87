"""Reads the ledger every few seconds, reports when nothing may be evicted, and writes what every binder must know.

The responses also show the API server's time.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from equipoise.binder.decisions.status import campaign_text
from equipoise.binder.shell.ledger_writer import LedgerWriter
from equipoise.binder.shell.metrics import BinderMetrics
from equipoise.binder.state.campaign import Campaign
from equipoise.binder.state.ledger import Ledger, LedgerClosed
from equipoise.runtime.kubernetes.client import KubeError
from equipoise.runtime.kubernetes.installation import InstallationCheck
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.health import Health

_CLOCK_READS = 20
_CLOCK_PAUSE = 0.05
"""Number of reads at start, and seconds between them: Date headers have whole seconds, so only responses spread over
one second determine the API server's time well. Times in windows must not shift afterwards."""

_PERIOD = 10.0
"""Seconds between two reads."""

_RECENT = 600.0
"""Seconds after its end in which a campaign gets its Event. A binder that starts later writes none about an old one."""


@dataclass
class LedgerWatch:
    ledger: LedgerWriter
    clock: Clock
    health: Health
    evictions: str
    """Whether pods are evicted, as the heartbeat reports it while nothing prevents evictions."""

    installation: InstallationCheck
    metrics: BinderMetrics
    on_campaign_end: Callable[[Campaign], Awaitable[None]]
    """Called once for each campaign that has ended."""

    def __post_init__(self) -> None:
        self._ended = ""
        """The name of the last campaign whose end was reported."""

    async def synchronize(self) -> None:
        """Determines the API server's time, which takes a second. Returns even if the API server does not respond."""
        for _ in range(_CLOCK_READS):
            await self._update()
            await self.clock.sleep(_CLOCK_PAUSE)

    async def run(self) -> None:
        """Reads the ledger regularly until canceled."""
        while True:
            await self.clock.sleep(_PERIOD)
            await self._update(replacements=True)

    def report(self, ledger: Ledger | LedgerClosed) -> None:
        if isinstance(ledger, LedgerClosed):
            problem = f"nothing may be evicted: {ledger.why}"
        elif ledger.paused:
            problem = f"paused: {ledger.pause_reason or 'no reason given'}"
        else:
            problem = ""
        self.health.set_problem("ledger", problem or None)
        campaign = ledger.campaign if isinstance(ledger, Ledger) else None
        runs = campaign is not None and campaign.ended_at is None
        self.health.campaign = campaign_text(campaign) if campaign is not None and runs else ""
        self.health.campaign_permits = campaign is not None and campaign.permits(self.ledger.earliest)
        self.health.surge_pods = self.ledger.surge_pods
        self.health.evictions = self.installation.problem or problem or self.evictions

    async def _update(self, *, replacements: bool = False) -> None:
        """`replacements`: whether to read the pending replacements, too."""
        try:
            ledger = await self.ledger.update()
            if replacements and isinstance(ledger, Ledger):
                ledger = await self.ledger.update_replacements(ledger)
        except KubeError as error:
            self.health.set_problem("ledger", f"the ledger cannot be read: {error}")
            self.metrics.on_ledger(None, self.ledger.earliest)
        else:
            self.report(ledger)
            self.metrics.on_ledger(ledger, self.ledger.earliest)
            if isinstance(ledger, Ledger) and ledger.campaign is not None:
                await self._report_end(ledger.campaign)

    async def _report_end(self, campaign: Campaign) -> None:
        if campaign.ended_at is None or campaign.name == self._ended:
            return
        self._ended = campaign.name
        if self.ledger.earliest - campaign.ended_at < _RECENT:
            await self.on_campaign_end(campaign)
